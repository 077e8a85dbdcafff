package keylane.match;

import keylane.blocks.Block;

/**
 * The records of a match that are somewhere at some time: pings, tombstones and requests.
 *
 * <pre>
 *   LEFT, UNAVAILABLE, AVAILABLE, REQUEST   lane 4 | ts 8 | offset 8 | lat 8 | lng 8 | id, to the end
 * </pre>
 *
 * Of two records of a driver with the same ts and offset the larger kind counts. A LEFT record is a tombstone: from then
 * on the driver is in no lane of the slot that gets it.
 */
final class Placed {
    static final byte LEFT = 2;
    static final byte UNAVAILABLE = 3;
    static final byte AVAILABLE = 4;
    static final byte REQUEST = 5;
    /** What the homes send to all lanes, with each batch: watermark 8 | kept from 8. */
    static final byte PROGRESS = 6;
    /** A request that is answered, in a snapshot. */
    static final byte ANSWERED = 7;
    /** What the homes decided in a batch, in their log: watermark 8 | kept from 8 | ripe before 8. */
    static final byte DECIDED = 8;

    private static final int LANE = Block.FIELDS;
    private static final int TS = LANE + 4;
    private static final int OFFSET = TS + 8;
    private static final int LAT = OFFSET + 8;
    private static final int LNG = LAT + 8;
    static final int ID = LNG + 8;

    static boolean isPosition(byte kind) {
        return kind >= LEFT && kind <= AVAILABLE;
    }

    static int lane(byte[] block, int at) {
        return Block.getInt(block, at + LANE);
    }

    static long ts(byte[] block, int at) {
        return Block.getLong(block, at + TS);
    }

    static long offset(byte[] block, int at) {
        return Block.getLong(block, at + OFFSET);
    }

    static double lat(byte[] block, int at) {
        return Block.getDouble(block, at + LAT);
    }

    static double lng(byte[] block, int at) {
        return Block.getDouble(block, at + LNG);
    }

    static int idLength(byte[] block, int at) {
        return Block.length(block, at) - ID;
    }

    static void put(
        Block to, byte kind, int lane, long ts, long offset, double lat, double lng, byte[] id, int at, int length) {
        to.begin(kind).putInt(lane).putLong(ts).putLong(offset).putDouble(lat).putDouble(lng).putBytes(id, at, length);
        to.end();
    }

    static void putProgress(Block to, long watermark, long keptFrom) {
        to.begin(PROGRESS).putLong(watermark).putLong(keptFrom);
        to.end();
    }

    static void putDecided(Block to, long watermark, long keptFrom, long ripeBefore) {
        to.begin(DECIDED).putLong(watermark).putLong(keptFrom).putLong(ripeBefore);
        to.end();
    }

    static long watermark(byte[] block, int at) {
        return Block.getLong(block, at + Block.FIELDS);
    }

    static long keptFrom(byte[] block, int at) {
        return Block.getLong(block, at + Block.FIELDS + 8);
    }

    static long ripeBefore(byte[] block, int at) {
        return Block.getLong(block, at + Block.FIELDS + 16);
    }
}
