package keylane.match;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import keylane.blocks.SourceTimes;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.Tuple2;

/**
 * Rows of Spark -> blocks: what Spark has read and judged of a source, in the columns of `keylane.pipelines.match`. A row
 * with a block is one that the source has packed itself.
 */
public final class PackRows implements MapPartitionsFunction {
    private static final int ID = 0;
    private static final int TS = 1;
    private static final int OFFSET = 2;
    private static final int LAT = 3;
    private static final int LNG = 4;
    private static final int AVAILABLE = 5;
    private static final int REASON = 6;
    private static final int SOURCE = 7;
    private static final int ORIGINAL = 8;
    private static final int PARTITION = 9;
    private static final int CLOCK = 10;
    private static final int SLOT = 11;
    private static final int BLOCK = 12;

    private final Rules rules;
    private final int source;
    private final boolean fromTopic;

    public PackRows(Rules rules, int source, boolean fromTopic) {
        this.rules = rules;
        this.source = source;
        this.fromTopic = fromTopic;
    }

    public Iterator call(Iterator rows) {
        Pack pack = new Pack(rules, source, fromTopic ? SourceTimes.SAME : SourceTimes.UNKNOWN);
        List packed = new ArrayList();
        while (rows.hasNext()) {
            Row row = (Row) rows.next();
            if (fromTopic && !row.isNullAt(BLOCK)) {
                packed.add(new Tuple2(Integer.valueOf(row.getInt(SLOT)), row.get(BLOCK)));
                continue;
            }
            put(row, pack);
        }
        packed.addAll(pack.rows());
        return packed.iterator();
    }

    private static void put(Row row, Pack pack) {
        pack.from(row.getInt(PARTITION));
        if (row.isNullAt(REASON)) {
            boolean available = row.isNullAt(AVAILABLE) || row.getBoolean(AVAILABLE);
            pack.good(row.getString(ID), row.getLong(TS), row.getLong(OFFSET), row.getDouble(LAT), row.getDouble(LNG),
                available, row.getLong(CLOCK), row.getString(SOURCE), row.getString(ORIGINAL));
        } else {
            pack.dead(row.getString(SOURCE), row.getString(REASON), row.getString(ORIGINAL));
        }
    }

    /** The same of a row as Spark has it inside. */
    static void put(InternalRow row, Pack pack) {
        pack.from(row.getInt(PARTITION));
        if (row.isNullAt(REASON)) {
            boolean available = row.isNullAt(AVAILABLE) || row.getBoolean(AVAILABLE);
            pack.good(text(row, ID), row.getLong(TS), row.getLong(OFFSET), row.getDouble(LAT), row.getDouble(LNG),
                available, row.getLong(CLOCK), text(row, SOURCE), text(row, ORIGINAL));
        } else {
            pack.dead(text(row, SOURCE), text(row, REASON), text(row, ORIGINAL));
        }
    }

    private static String text(InternalRow row, int column) {
        return row.isNullAt(column) ? null : row.getUTF8String(column).toString();
    }
}
