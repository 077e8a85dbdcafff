package keylane.match;

import java.io.IOException;
import java.util.Map;
import keylane.blocks.SparkColumns;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.KeyValueGroupedDataset;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.StructType;

/** A running match as one plan, the same in every batch: blocks -> homes -> lanes -> merged answers, and offers. */
public final class Plan {
    private static final int SLOTS_A_MERGE = 4;

    public Rules rules(Map given) {
        return new Rules(given);
    }

    /** Rows of a source, in the columns of PackRows, as blocks. */
    public Dataset packed(Dataset rows, Rules rules, int source, boolean fromTopic) {
        return rows.mapPartitions(new PackRows(rules, source, fromTopic), block());
    }

    /** Columns that a source can work out itself; null where that takes a plan. */
    public SparkColumns columns(Dataset rows) throws IOException {
        return SparkColumns.of(rows);
    }

    /** How the source of a topic packs records; `names` is null where none are plain, `columns` where others stay rows. */
    public JsonPacker.Maker packer(Rules rules, int source, Map names, SparkColumns columns) {
        return new JsonPacker.Maker(rules, source, names, columns);
    }

    /** Blocks of both sources -> rows of Merge. */
    public Dataset answers(Dataset blocks, Rules rules) {
        Dataset lanes = new Lanes(rules).after(new Homes(rules).after(blocks));
        // Answers are few, and end up in one place: tasks for them cost more than they take.
        int tasks = Math.max(1, rules.slots.count / SLOTS_A_MERGE);
        Dataset by = lanes.repartition(tasks, new Column[] {functions.col("_1")});
        Encoder row = Encoders.row(StructType.fromDDL(Merge.SCHEMA));
        Dataset merged = by.mapPartitions(new Merge(rules), row);
        if (rules.assign == null) {
            return merged;
        }
        // Zero for all: a literal would be the number of a column.
        Column one = functions.col("kind").bitwiseAND(Integer.valueOf(0)).alias("slot");
        KeyValueGroupedDataset all = merged.groupBy(new Column[] {one}).as(Encoders.INT(), row);
        return all.transformWithState(new Offers(rules), TimeMode.None(), OutputMode.Append(), row);
    }

    private static Encoder block() {
        return Encoders.tuple(Encoders.INT(), Encoders.BINARY());
    }

    /** Drop what a query that has ended left in memory; how many slots. */
    public int forget(String query) {
        return keylane.blocks.BlockStep.forget(query);
    }
}
