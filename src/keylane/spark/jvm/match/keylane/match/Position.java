package keylane.match;

/** Where a driver was from `ts` on, until its next position; or, as a tombstone, that it had left. */
final class Position {
    final byte kind;
    final int lane;
    final long ts;
    final long offset;
    final double lat;
    final double lng;
    /** The neighbours in time, null where there is none or it is forgotten. */
    Position older;
    Position newer;
    Driver driver;
    /** The square of the grid that it is in, and its index there. */
    Square square;
    int index;

    Position(byte[] block, int at) {
        kind = keylane.blocks.Block.kind(block, at);
        lane = Placed.lane(block, at);
        ts = Placed.ts(block, at);
        offset = Placed.offset(block, at);
        lat = Placed.lat(block, at);
        lng = Placed.lng(block, at);
    }

    boolean isAfter(Position other) {
        return ts > other.ts || ts == other.ts && (offset > other.offset || offset == other.offset && kind > other.kind);
    }

    /** Whether it is the driver's newest position at a moment. */
    boolean isSeenAt(long moment) {
        return ts <= moment && (newer == null || newer.ts > moment);
    }
}
