package keylane.match;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.commons.codec.digest.MurmurHash2;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;

/**
 * The lane of a home cell by one contract: that of the leaf that holds it, otherwise the hash of its ancestor. Equal to
 * CellLanes of keylane.placement.cell_lanes, for the hashes that are named here.
 */
public final class LaneTable implements Serializable {
    private static final long CURVE = (1L << 52) - 1;
    private static final int FINEST = 15;
    private static final int KAFKA_SEED = 0x9747b28c;

    private final long[] starts;
    private final long[] ends;
    private final int[] leafLanes;
    private final int resolution;
    private final int count;
    private final String hash;
    private final String fold;
    /** Ancestors that were hashed, and their lanes, by some of their bits: most records of a task are of few. */
    private transient long[] ancestors;
    private transient int[] ancestorLanes;

    /** Numbers as big-endian bytes: one array crosses from Python at once, and numbers would one by one. */
    LaneTable(Map given, int lanes) {
        starts = longs((byte[]) given.get("starts"));
        ends = longs((byte[]) given.get("ends"));
        leafLanes = new int[starts.length];
        ByteBuffer.wrap((byte[]) given.get("lanes")).asIntBuffer().get(leafLanes);
        resolution = ((Number) given.get("resolution")).intValue();
        count = lanes;
        hash = (String) given.get("hash");
        fold = (String) given.get("fold");
    }

    private static long[] longs(byte[] bytes) {
        long[] out = new long[bytes.length / 8];
        ByteBuffer.wrap(bytes).asLongBuffer().get(out);
        return out;
    }

    static int resolutionOf(long cell) {
        return (int) (cell >>> 52) & 15;
    }

    /** The ancestor at a resolution that is not finer than the cell's own. */
    static long ancestor(long cell, int at) {
        return cell & ~(15L << 52) | (long) at << 52 | (1L << 3 * (FINEST - at)) - 1L;
    }

    /** The descendant at a resolution, not coarser than the cell's own, whose centre is the cell's. */
    static long middle(long cell, int at) {
        long finer = (1L << 3 * (FINEST - resolutionOf(cell))) - 1L;
        return cell & ~(15L << 52) & ~finer | (long) at << 52 | (1L << 3 * (FINEST - at)) - 1L;
    }

    /** The lane of a home cell. */
    public int lane(long cell) {
        if (starts.length > 0) {
            long place = cell & CURVE;
            int at = lastStart(place);
            if (at >= 0 && place <= ends[at]) {
                return leafLanes[at];
            }
        }
        return hashed(ancestor(cell, resolution));
    }

    private int lastStart(long place) {
        int found = Arrays.binarySearch(starts, place);
        return found >= 0 ? found : -found - 2;
    }

    /** Whether a cell of any resolution is one lane throughout: in a leaf, or hashed and with no leaf in it. */
    boolean isOneLane(long cell) {
        boolean hashed = resolutionOf(cell) >= resolution;
        if (starts.length == 0) {
            return hashed;
        }
        long last = cell & CURVE;
        long first = last & ~((1L << 3 * (FINEST - resolutionOf(cell))) - 1L);
        int at = lastStart(last);
        return at < 0 || ends[at] < first ? hashed : starts[at] <= first && last <= ends[at];
    }

    private int hashed(long ancestor) {
        if (ancestors == null) {
            ancestors = new long[4096];
            ancestorLanes = new int[4096];
        }
        int slot = (int) ((ancestor >>> 3 * (FINEST - resolution)) * 0x9E3779B1L >>> 20) & 4095;
        if (ancestors[slot] != ancestor) {
            ancestorLanes[slot] = folded(hashOf(ancestor));
            ancestors[slot] = ancestor;
        }
        return ancestorLanes[slot];
    }

    private int hashOf(long cell) {
        byte[] key = ByteBuffer.allocate(8).putLong(cell).array();
        if (hash.equals("murmur2")) {
            return MurmurHash2.hash32(key, 8, KAFKA_SEED);
        }
        if (hash.equals("spark-long")) {
            return Murmur3_x86_32.hashLong(cell, 42);
        }
        if (hash.equals("crc32")) {
            CRC32 sum = new CRC32();
            sum.update(key);
            return (int) sum.getValue();
        }
        if (hash.equals("fnv1a")) {
            int out = 0x811c9dc5;
            for (int at = 0; at < 8; at++) {
                out = (out ^ key[at] & 255) * 16777619;
            }
            return out;
        }
        throw new IllegalArgumentException("no such hash in Java: " + hash);
    }

    private int folded(int number) {
        if (fold.equals("masked")) {
            return (number & 0x7fffffff) % count;
        }
        if (fold.equals("unsigned")) {
            return (int) ((number & 0xffffffffL) % count);
        }
        if (fold.equals("absolute")) {
            return (int) (Math.abs((long) number) % count);
        }
        if (fold.equals("positive")) {
            return Math.floorMod(number, count);
        }
        throw new IllegalArgumentException("no such fold in Java: " + fold);
    }
}
