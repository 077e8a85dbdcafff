package keylane;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * The lane of a key: that of its explicit hash key where it has one, otherwise the range that its MD5 lies in. Equal to
 * keylane.router with a key space and hash keys.
 *
 * A bit tells most keys without a hash key. The others are looked up by their digest, and compared: two keys of one MD5
 * are possible. The leading bits of a digest leave few ranges, among which it is bisected.
 */
public final class ShardLane implements UDF1 {
    private static final ThreadLocal DIGESTERS = new ThreadLocal();
    private static final int MOST_BITS = 16;

    /** The upper and lower halves of the first numbers of ranges, in an order in which signed numbers compare. */
    private long[] highs;
    private long[] lows;
    private Integer[] lanes;
    /** The last range that begins at or before the end of each bucket. */
    private int[] lasts;
    private int behind;
    private long[] bits;
    private byte[][] keys;
    private Integer[] pins;
    private boolean hashesEmpty;

    /** Ranges by their first numbers, 16 bytes each; keys end to end with their lengths and lanes, 4 bytes each. */
    public ShardLane of(byte[] starts, byte[] keys, byte[] lengths, byte[] lanes, boolean hashesEmpty) {
        this.hashesEmpty = hashesEmpty;
        ranges(ByteBuffer.wrap(starts));
        accounts(keys, ints(lengths), ints(lanes));
        return this;
    }

    private void ranges(ByteBuffer starts) {
        int many = starts.remaining() / 16;
        highs = new long[many];
        lows = new long[many];
        lanes = new Integer[many];
        int leading = 8;
        while (leading < MOST_BITS && (1 << leading) < 16 * many) {
            leading++;
        }
        behind = 64 - leading;
        lasts = new int[1 << leading];
        for (int lane = 0; lane < many; lane++) {
            long high = starts.getLong();
            highs[lane] = high ^ Long.MIN_VALUE;
            lows[lane] = starts.getLong() ^ Long.MIN_VALUE;
            lanes[lane] = Integer.valueOf(lane);
            lasts[(int) (high >>> behind)] = lane;
        }
        for (int bucket = 1; bucket < lasts.length; bucket++) {
            lasts[bucket] = Math.max(lasts[bucket], lasts[bucket - 1]);
        }
    }

    private void accounts(byte[] given, int[] lengths, int[] lanes) {
        int words = Math.max(16, Integer.highestOneBit(Math.max(1, lengths.length)) * 2);
        bits = new long[words];
        keys = new byte[4 * words][];
        pins = new Integer[4 * words];
        int from = 0;
        for (int at = 0; at < lengths.length; at++) {
            byte[] key = Arrays.copyOfRange(given, from, from + lengths[at]);
            from += lengths[at];
            long high = number(digest(key), 0);
            bits[(int) (high >>> 6) & (words - 1)] |= 1L << high;
            int slot = first(high);
            while (keys[slot] != null) {
                slot = (slot + 1) & (keys.length - 1);
            }
            keys[slot] = key;
            pins[slot] = this.lanes[lanes[at]];
        }
    }

    private int first(long high) {
        return (int) (high >>> 32) & (keys.length - 1);
    }

    private static int[] ints(byte[] bytes) {
        int[] out = new int[bytes.length / 4];
        ByteBuffer.wrap(bytes).asIntBuffer().get(out);
        return out;
    }

    private static byte[] digest(byte[] key) {
        MessageDigest digester = (MessageDigest) DIGESTERS.get();
        if (digester == null) {
            try {
                digester = MessageDigest.getInstance("MD5");
            } catch (NoSuchAlgorithmException error) {
                throw new IllegalStateException(error);
            }
            DIGESTERS.set(digester);
        }
        return digester.digest(key);
    }

    private static long number(byte[] d, int at) {
        return ((long) d[at] << 56) | ((d[at + 1] & 0xFFL) << 48) | ((d[at + 2] & 0xFFL) << 40)
            | ((d[at + 3] & 0xFFL) << 32) | ((d[at + 4] & 0xFFL) << 24) | ((d[at + 5] & 0xFFL) << 16)
            | ((d[at + 6] & 0xFFL) << 8) | (d[at + 7] & 0xFFL);
    }

    public Object call(Object given) {
        byte[] key = (byte[]) given;
        if (key == null || (key.length == 0 && !hashesEmpty)) {
            return null;
        }
        byte[] digest = digest(key);
        long high = number(digest, 0);
        if (((bits[(int) (high >>> 6) & (bits.length - 1)] >>> high) & 1L) != 0) {
            for (int slot = first(high); keys[slot] != null; slot = (slot + 1) & (keys.length - 1)) {
                if (Arrays.equals(keys[slot], key)) {
                    return pins[slot];
                }
            }
        }
        int bucket = (int) (high >>> behind);
        int low = bucket == 0 ? 0 : lasts[bucket - 1];
        int last = lasts[bucket];
        long upper = high ^ Long.MIN_VALUE;
        while (low < last) {
            int middle = (low + last + 1) >>> 1;
            if (upper > highs[middle]
                || (upper == highs[middle] && (number(digest, 8) ^ Long.MIN_VALUE) >= lows[middle])) {
                low = middle;
            } else {
                last = middle - 1;
            }
        }
        return lanes[low];
    }

    public Column column(Column key) {
        return functions.udf((UDF1) this, DataTypes.IntegerType).withName("shard_lane").apply(new Column[] {key});
    }
}
