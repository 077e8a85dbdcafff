package keylane.match;

import keylane.blocks.IdTable;

/** A request: a rider and a time, by its last report. The id in a table is the rider's, then the time. */
final class Request extends IdTable.Item {
    final int riderLength;
    final long ts;
    long offset;
    double lat;
    double lng;
    boolean answered;
    private boolean gone;

    Request(byte[] key, int hash, byte[] block, int at) {
        super(key, 0, key.length, hash);
        riderLength = Placed.idLength(block, at);
        ts = Placed.ts(block, at);
        report(block, at);
    }

    void report(byte[] block, int at) {
        offset = Placed.offset(block, at);
        lat = Placed.lat(block, at);
        lng = Placed.lng(block, at);
    }

    static byte[] key(byte[] block, int at) {
        int length = Placed.idLength(block, at);
        byte[] key = new byte[length + 8];
        System.arraycopy(block, at + Placed.ID, key, 0, length);
        java.nio.ByteBuffer.wrap(key).putLong(length, Placed.ts(block, at));
        return key;
    }

    void forget() {
        gone = true;
    }

    public boolean isGone() {
        return gone;
    }

    void put(keylane.blocks.Block to, byte kind, int lane) {
        Placed.put(to, kind, lane, ts, offset, lat, lng, id, 0, riderLength);
    }
}
