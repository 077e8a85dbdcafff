package keylane.blocks;

import java.util.Arrays;
import org.apache.spark.unsafe.Platform;

/**
 * Packed records, one after the other in one array of bytes: a block is one row of Spark, so that exchanges, sorts and
 * encoders cost what a few rows cost. This writes one; the static methods read.
 *
 * <pre>
 *   length 4 | kind 1 | fields, at positions that whoever writes the kind decides
 * </pre>
 *
 * The length is that of the whole record. Kinds from PASSING on are on their way to a later step and no part of any
 * state: a block has either such records or others, never both.
 */
public final class Block {
    /** The first kind that no state keeps. */
    public static final byte PASSING = 64;
    /** A JSON object, the counts of a step: on its way to whoever commits the batch. */
    public static final byte COUNTS = PASSING + 1;
    /** Where the first field is. */
    public static final int FIELDS = 5;

    private byte[] bytes;
    private int length;
    private int start;

    public Block(int capacity) {
        bytes = new byte[capacity];
    }

    public static int length(byte[] block, int at) {
        return Platform.getInt(block, Platform.BYTE_ARRAY_OFFSET + at);
    }

    public static byte kind(byte[] block, int at) {
        return block[at + 4];
    }

    public static int getInt(byte[] block, int at) {
        return Platform.getInt(block, Platform.BYTE_ARRAY_OFFSET + at);
    }

    public static long getLong(byte[] block, int at) {
        return Platform.getLong(block, Platform.BYTE_ARRAY_OFFSET + at);
    }

    public static double getDouble(byte[] block, int at) {
        return Platform.getDouble(block, Platform.BYTE_ARRAY_OFFSET + at);
    }

    /** Whether the records of a block are on their way only. */
    public static boolean isPassing(byte[] block) {
        return block.length > FIELDS && block[4] >= PASSING;
    }

    public int length() {
        return length;
    }

    private void reserve(int more) {
        if (more > bytes.length - length) {
            long least = (long) length + more;
            if (least > Integer.MAX_VALUE - 16) {
                throw new IllegalStateException("a block has more than 2 GiB: fewer records in a batch, or more slots");
            }
            bytes = Arrays.copyOf(bytes, (int) Math.min(Integer.MAX_VALUE - 16, Math.max(bytes.length * 2L, least)));
        }
    }

    /** Begin a record; its fields follow, then `end`. */
    public Block begin(byte kind) {
        reserve(FIELDS);
        start = length;
        bytes[length + 4] = kind;
        length += FIELDS;
        return this;
    }

    public void end() {
        Platform.putInt(bytes, Platform.BYTE_ARRAY_OFFSET + start, length - start);
    }

    public Block putInt(int value) {
        reserve(4);
        Platform.putInt(bytes, Platform.BYTE_ARRAY_OFFSET + length, value);
        length += 4;
        return this;
    }

    public Block putLong(long value) {
        reserve(8);
        Platform.putLong(bytes, Platform.BYTE_ARRAY_OFFSET + length, value);
        length += 8;
        return this;
    }

    public Block putDouble(double value) {
        reserve(8);
        Platform.putDouble(bytes, Platform.BYTE_ARRAY_OFFSET + length, value);
        length += 8;
        return this;
    }

    /** Bytes as they are: a field without a length of its own, or a whole record. */
    public Block putBytes(byte[] from, int at, int many) {
        reserve(many);
        System.arraycopy(from, at, bytes, length, many);
        length += many;
        return this;
    }

    public Block putBytes(byte[] from) {
        return putBytes(from, 0, from.length);
    }

    /** A record as it is in another block. */
    public void copy(byte[] from, int at) {
        putBytes(from, at, length(from, at));
    }

    public byte[] toBytes() {
        return Arrays.copyOf(bytes, length);
    }
}
