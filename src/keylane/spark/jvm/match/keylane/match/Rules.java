package keylane.match;

import java.io.Serializable;
import java.util.List;
import java.util.Map;
import keylane.blocks.Slots;

/** What every step of a running match has to know; it travels with the tasks. Times are whole microseconds. */
public final class Rules implements Serializable {
    /** The numbers of the two sources. */
    public static final int DRIVERS = 0;
    public static final int RIDERS = 1;

    public final Slots slots;
    public final int lanes;
    public final double radius;
    public final int nearest;
    public final long expire;
    public final long late;
    public final long keep;
    public final long ahead;
    public final long window;
    public final boolean matching;
    /** How drivers are assigned: greedy or optimal; null where they are not. Offers hold for so long. */
    public final String assign;
    public final long offerFor;
    /** Of the contracts in use, the oldest first; the last one places pings. */
    public final LaneTable[] tables;

    /** Of a map of Python's; `tables` are lists of the arguments of LaneTable. */
    public Rules(Map given) {
        slots = new Slots(whole(given, "slots").intValue());
        lanes = whole(given, "lanes").intValue();
        radius = ((Number) given.get("radius")).doubleValue();
        nearest = whole(given, "nearest").intValue();
        expire = whole(given, "expire").longValue();
        late = whole(given, "late").longValue();
        keep = whole(given, "keep").longValue();
        ahead = whole(given, "ahead").longValue();
        window = whole(given, "window").longValue();
        matching = ((Boolean) given.get("matching")).booleanValue();
        assign = (String) given.get("assign");
        offerFor = whole(given, "offer_for").longValue();
        List all = (List) given.get("tables");
        tables = new LaneTable[all.size()];
        for (int at = 0; at < tables.length; at++) {
            tables[at] = new LaneTable((Map) all.get(at), lanes);
        }
    }

    private static Number whole(Map given, String name) {
        return (Number) given.get(name);
    }

    public LaneTable current() {
        return tables[tables.length - 1];
    }

    public int slotOfLane(int lane) {
        return lane % slots.count;
    }

    /** Requests before this are answered: those of whole windows, from 1970 on. */
    public long ripeBefore(long watermark) {
        return Math.max(Math.floorDiv(watermark, window) * window, keylane.blocks.SourceTimes.BEGINNING);
    }
}
