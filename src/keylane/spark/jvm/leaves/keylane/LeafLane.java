package keylane;

import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * The lane of the leaf that a cell is in, null where it is in none. Leaves are ranges of the curve in order, without
 * overlap: the last that starts at or before the cell's place holds it, or none does. Equal to from_leaves in
 * keylane.placement.cell_lanes.
 */
public final class LeafLane implements UDF1 {
    private static final long CURVE = (1L << 52) - 1;

    private long[] starts;
    private long[] ends;
    private Integer[] lanes;

    /** Numbers as big-endian bytes: one array crosses from Python at once, and numbers would one by one. */
    public LeafLane of(byte[] first, byte[] last, byte[] lane) {
        starts = longs(first);
        ends = longs(last);
        lanes = new Integer[starts.length];
        ByteBuffer given = ByteBuffer.wrap(lane);
        for (int at = 0; at < lanes.length; at++) {
            lanes[at] = Integer.valueOf(given.getInt());
        }
        return this;
    }

    private static long[] longs(byte[] bytes) {
        long[] out = new long[bytes.length / 8];
        ByteBuffer.wrap(bytes).asLongBuffer().get(out);
        return out;
    }

    public Object call(Object cell) {
        if (cell == null) {
            return null;
        }
        long place = ((Long) cell).longValue() & CURVE;
        int found = Arrays.binarySearch(starts, place);
        int at = found >= 0 ? found : -found - 2;
        return at >= 0 && place <= ends[at] ? lanes[at] : null;
    }

    public Column column(Column cell) {
        return functions.udf((UDF1) this, DataTypes.IntegerType).withName("leaf_lane").apply(new Column[] {cell});
    }
}
