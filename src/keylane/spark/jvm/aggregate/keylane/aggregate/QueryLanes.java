package keylane.aggregate;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import org.apache.commons.codec.digest.MurmurHash2;

/**
 * The lane of a window: by query, or by query and window. Equal to keylane.aggregation.lanes.
 *
 * <p>By query: hash(query) mod lanes. By query and window: (hash(query) + number of the window) mod lanes, so that a query
 * is in another lane with each window, and within as many windows as there are lanes has been in each of them once.
 */
final class QueryLanes implements Serializable {
    private final int lanes;
    private final boolean byWindow;

    QueryLanes(int lanes, boolean byWindow) {
        this.lanes = lanes;
        this.byWindow = byWindow;
    }

    static int hash(String query) {
        byte[] bytes = query.getBytes(StandardCharsets.UTF_8);
        return MurmurHash2.hash32(bytes, bytes.length) & 0x7fffffff;
    }

    int of(int hash, long start, long slide) {
        return (int) Math.floorMod(byWindow ? hash + Math.floorDiv(start, slide) : (long) hash, (long) lanes);
    }
}
