package keylane.match;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import keylane.blocks.Block;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.QueryInfo;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;

/**
 * The step after Merge, where drivers are assigned: in one group, window after window, since who is free depends on all
 * windows before. Rows of Merge pass; an offer is one more row, its moment in the place of the driver's. The ledger, who is
 * held until when, is one value in Spark's store, written with each batch: it has the offers of a few seconds only.
 *
 * <pre>
 *   ledger   batch 8 | owner 8, then for each driver HELD: expires 8 | driver, to the end
 * </pre>
 *
 * The batch and the owner are those of BlockStep: what was swapped for an older one, or for another's, is noticed.
 */
public final class Offers extends StatefulProcessor implements Comparator {
    public static final int OFFER = 3;
    private static final byte HELD = 1;
    private static final int HEAD = 16;

    private final Rules rules;
    private transient ValueState ledger;

    public Offers(Rules rules) {
        this.rules = rules;
    }

    public void init(OutputMode mode, TimeMode time) {
        ledger = getHandle().getValueState("ledger", Encoders.BINARY(), TTLConfig.NONE());
    }

    /** What a batch comes to. */
    static final class Counts {
        long granted;
        long refused;
        double metres;
    }

    public scala.collection.Iterator handleInputRows(Object key, scala.collection.Iterator rows, TimerValues timers) {
        QueryInfo query = getHandle().getQueryInfo();
        byte[] place = (query.getQueryId() + "/offers").getBytes(StandardCharsets.UTF_8);
        long owner = UUID.nameUUIDFromBytes(place).getMostSignificantBits();
        byte[] known = (byte[]) ledger.get();
        if (known != null && (known.length < HEAD || Block.getLong(known, 8) != owner)) {
            throw new IllegalStateException("the state of offers 0 is damaged: it is that of another step or query");
        }
        Map held = held(known);
        List out = new ArrayList();
        List pairs = new ArrayList();
        while (rows.hasNext()) {
            Row row = (Row) rows.next();
            out.add(row);
            if (row.getInt(0) == Merge.MATCH) {
                pairs.add(row);
            }
        }
        Counts counts = assign(pairs, held, out);
        byte[] after = packed(held, query.getBatchId(), owner);
        ledger.update(after);
        long found = known == null ? -1L : Block.getLong(known, 0);
        text(out, "{\"step\":\"state\",\"of\":\"offers\",\"slot\":0,\"found\":" + found + ",\"state_bytes\":" + after.length + "}");
        text(out, "{\"step\":\"offers\",\"granted\":" + counts.granted + ",\"refused\":" + counts.refused + ",\"metres\":"
            + counts.metres + ",\"held\":" + held.size() + "}");
        return scala.jdk.javaapi.CollectionConverters.asScala(out.iterator());
    }

    private static void text(List out, String json) {
        out.add(RowFactory.create(new Object[] {Integer.valueOf(Merge.COUNTS), json, null, null, null, null, null}));
    }

    /** Offers of whole windows, added to the rows; `held` is the ledger, driver -> expires, before and after. */
    Counts assign(List pairs, Map held, List out) {
        Object[] sorted = pairs.toArray();
        Arrays.sort(sorted, this);
        Counts counts = new Counts();
        int from = 0;
        while (from < sorted.length) {
            long window = window(sorted[from]);
            int to = from;
            while (to < sorted.length && window(sorted[to]) == window) {
                to++;
            }
            assign(sorted, from, to, (window + 1L) * rules.window, held, counts, out);
            from = to;
        }
        return counts;
    }

    private long window(Object row) {
        return Math.floorDiv(((Row) row).getLong(2), rules.window);
    }

    private void assign(Object[] sorted, int from, int to, long now, Map held, Counts counts, List out) {
        for (Iterator all = held.values().iterator(); all.hasNext(); ) {
            if (((Long) all.next()).longValue() <= now) {
                all.remove();
            }
        }
        int[] rows = new int[to - from];
        int[] request = new int[to - from];
        int[] driver = new int[to - from];
        double[] metres = new double[to - from];
        Map numbers = new HashMap();
        int many = 0;
        int asked = 0;
        int open = -1;
        Row before = null;
        boolean isNew = true;
        for (int at = from; at < to; at++) {
            Row row = (Row) sorted[at];
            if (before == null || row.getLong(2) != before.getLong(2) || !row.getString(1).equals(before.getString(1))) {
                asked++;
                isNew = true;
            }
            before = row;
            if (held.containsKey(row.getString(3))) {
                continue;
            }
            open += isNew ? 1 : 0;
            isNew = false;
            Integer number = (Integer) numbers.get(row.getString(3));
            if (number == null) {
                number = Integer.valueOf(numbers.size());
                numbers.put(row.getString(3), number);
            }
            rows[many] = at;
            request[many] = open;
            driver[many] = number.intValue();
            metres[many] = row.getDouble(4);
            many++;
        }
        Assignment free = new Assignment(Arrays.copyOf(request, many), Arrays.copyOf(driver, many), Arrays.copyOf(metres, many));
        int[] chosen = rules.assign.equals("greedy") ? free.greedy() : free.optimal();
        long granted = 0L;
        for (int i = 0; i < chosen.length; i++) {
            if (chosen[i] >= 0) {
                Row row = (Row) sorted[rows[chosen[i]]];
                held.put(row.getString(3), Long.valueOf(now + rules.offerFor));
                counts.metres += row.getDouble(4);
                granted++;
                out.add(RowFactory.create(new Object[] {Integer.valueOf(OFFER), row.get(1), row.get(2), row.get(3), row.get(4),
                    Long.valueOf(now), Integer.valueOf(1)}));
            }
        }
        counts.granted += granted;
        counts.refused += asked - granted;
    }

    private static Map held(byte[] known) {
        Map held = new TreeMap();
        for (int at = HEAD; known != null && at < known.length; at += Block.length(known, at)) {
            int driver = at + Block.FIELDS + 8;
            String name = Passing.string(known, driver, at + Block.length(known, at) - driver);
            held.put(name, Long.valueOf(Block.getLong(known, at + Block.FIELDS)));
        }
        return held;
    }

    private static byte[] packed(Map held, long batch, long owner) {
        Block out = new Block(1 << 12).putLong(batch).putLong(owner);
        for (Iterator all = held.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            out.begin(HELD).putLong(((Long) one.getValue()).longValue());
            out.putBytes(((String) one.getKey()).getBytes(StandardCharsets.UTF_8)).end();
        }
        return out.toBytes();
    }

    /** By time, rider, distance and driver. */
    public int compare(Object one, Object other) {
        Row a = (Row) one;
        Row b = (Row) other;
        int order = Long.compare(a.getLong(2), b.getLong(2));
        if (order == 0) {
            order = Passing.order(a.getString(1), b.getString(1));
        }
        if (order == 0) {
            order = Double.compare(a.getDouble(4), b.getDouble(4));
        }
        return order != 0 ? order : Passing.order(a.getString(3), b.getString(3));
    }
}
