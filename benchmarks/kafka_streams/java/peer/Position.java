package peer;

import java.nio.ByteBuffer;

/** The newest that a lane knows of a driver: where it was, or that it is in another lane since then. */
final class Position {
    static final byte AWAY = 0;
    static final byte AVAILABLE = 1;
    static final byte LEFT = 2;

    final String driver;
    final long ts;
    final double lat;
    final double lng;
    final byte kind;
    /** Set while it can be found. */
    long cell;

    Position(String driver, long ts, double lat, double lng, byte kind) {
        this.driver = driver;
        this.ts = ts;
        this.lat = lat;
        this.lng = lng;
        this.kind = kind;
    }

    static Position of(String driver, Object stored) {
        ByteBuffer in = ByteBuffer.wrap((byte[]) stored);
        return new Position(driver, in.getLong(), in.getDouble(), in.getDouble(), in.get());
    }

    byte[] stored() {
        return ByteBuffer.allocate(25).putLong(ts).putDouble(lat).putDouble(lng).put(kind).array();
    }
}
