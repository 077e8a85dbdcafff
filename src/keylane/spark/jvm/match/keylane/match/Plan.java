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

/** A running match as one plan, the same in every batch: blocks -> homes -> lanes -> merged answers. */
public final class Plan {
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
        TimeMode none = TimeMode.None();
        OutputMode append = OutputMode.Append();
        Dataset homes = bySlot(blocks.toDF(new String[] {"_1", "_2"})).transformWithState(new Homes(rules), none, append, block());
        Dataset lanes = bySlot(homes).transformWithState(new Lanes(rules), none, append, block());
        Dataset by = lanes.repartition(rules.slots.count, new Column[] {functions.col("_1")});
        return by.mapPartitions(new Merge(rules), Encoders.row(StructType.fromDDL(Merge.SCHEMA)));
    }

    private static Encoder block() {
        return Encoders.tuple(Encoders.INT(), Encoders.BINARY());
    }

    private static KeyValueGroupedDataset bySlot(Dataset blocks) {
        return blocks.groupBy("_1", new String[0]).as(Encoders.INT(), block());
    }
}
