package keylane.match;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import keylane.blocks.Block;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import scala.Tuple2;

/**
 * The last step, without state: all slots answer a request in the same batch, so its pairs are put in order here, each
 * driver once, the nearest taken. Counts and dead letters become rows as they are, with their JSON for a rider.
 */
public final class Merge implements MapPartitionsFunction, Comparator {
    public static final String SCHEMA =
        "kind int, rider string, rider_ts bigint, driver string, distance_m double, driver_ts bigint, rank int";
    public static final int MATCH = 0;
    public static final int COUNTS = 1;
    public static final int DEAD = 2;

    private static final int RIDER_TS = Block.FIELDS;
    private static final int DRIVER_TS = RIDER_TS + 16;
    private static final int DRIVER_OFFSET = DRIVER_TS + 8;
    private static final int METRES = DRIVER_OFFSET + 8;
    private static final int RIDER_LENGTH = METRES + 8;
    private static final int RIDER = RIDER_LENGTH + 4;

    private final int nearest;

    public Merge(Rules rules) {
        nearest = rules.nearest;
    }

    static final class Pair {
        final String driver;
        final double metres;
        final long ts;
        final long offset;

        Pair(byte[] block, int at) {
            int driverAt = at + RIDER + Block.getInt(block, at + RIDER_LENGTH);
            driver = Passing.string(block, driverAt, at + Block.length(block, at) - driverAt);
            metres = Block.getDouble(block, at + METRES);
            ts = Block.getLong(block, at + DRIVER_TS);
            offset = Block.getLong(block, at + DRIVER_OFFSET);
        }
    }

    static final class Request {
        final String rider;
        final long ts;
        final List pairs = new ArrayList();

        Request(String rider, long ts) {
            this.rider = rider;
            this.ts = ts;
        }
    }

    public Iterator call(Iterator rows) {
        Map requests = new HashMap();
        List out = new ArrayList();
        while (rows.hasNext()) {
            byte[] block = (byte[]) ((Tuple2) rows.next())._2();
            for (int at = 0; at < block.length; at += Block.length(block, at)) {
                byte kind = Block.kind(block, at);
                if (kind == Passing.PAIR) {
                    add(requests, block, at);
                } else if (kind == Passing.COUNTS || kind == Passing.DEAD) {
                    Integer of = Integer.valueOf(kind == Passing.DEAD ? DEAD : COUNTS);
                    Object[] row = {of, Passing.text(block, at), null, null, null, null, null};
                    out.add(RowFactory.create(row));
                }
            }
        }
        int others = out.size();
        long ghosts = 0;
        for (Iterator all = requests.values().iterator(); all.hasNext(); ) {
            ghosts += rank((Request) all.next(), out);
        }
        if (!requests.isEmpty()) {
            String counts = "{\"step\":\"merge\",\"pairs\":" + (out.size() - others) + ",\"riders\":" + requests.size()
                + ",\"ghosts\":" + ghosts + "}";
            Object[] row = {Integer.valueOf(COUNTS), counts, null, null, null, null, null};
            out.add(RowFactory.create(row));
        }
        return out.iterator();
    }

    private static void add(Map requests, byte[] block, int at) {
        int length = Block.getInt(block, at + RIDER_LENGTH);
        long ts = Block.getLong(block, at + RIDER_TS);
        String rider = Passing.string(block, at + RIDER, length);
        String key = ts + "/" + rider;
        Request request = (Request) requests.get(key);
        if (request == null) {
            request = new Request(rider, ts);
            requests.put(key, request);
        }
        request.pairs.add(new Pair(block, at));
    }

    /** Rows of a request's pairs; how many were of a driver that another slot knows better. */
    private int rank(Request request, List out) {
        Map drivers = new HashMap();
        for (int i = 0; i < request.pairs.size(); i++) {
            Pair pair = (Pair) request.pairs.get(i);
            Pair known = (Pair) drivers.get(pair.driver);
            if (known == null || pair.ts > known.ts || pair.ts == known.ts && pair.offset > known.offset) {
                drivers.put(pair.driver, pair);
            }
        }
        Object[] pairs = drivers.values().toArray();
        Arrays.sort(pairs, this);
        int many = nearest > 0 ? Math.min(nearest, pairs.length) : pairs.length;
        for (int at = 0; at < many; at++) {
            Pair pair = (Pair) pairs[at];
            Object[] row = {Integer.valueOf(MATCH), request.rider, Long.valueOf(request.ts), pair.driver,
                Double.valueOf(pair.metres), Long.valueOf(pair.ts), Integer.valueOf(at + 1)};
            out.add(RowFactory.create(row));
        }
        return request.pairs.size() - pairs.length;
    }

    public int compare(Object one, Object other) {
        Pair a = (Pair) one;
        Pair b = (Pair) other;
        int order = Double.compare(a.metres, b.metres);
        return order != 0 ? order : Passing.order(a.driver, b.driver);
    }
}
