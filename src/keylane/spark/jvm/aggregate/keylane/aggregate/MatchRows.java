package keylane.aggregate;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import keylane.blocks.Block;
import keylane.blocks.IdleCache;
import keylane.blocks.Output;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.rdd.InputFileBlockHolder;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.types.DataType;
import scala.Tuple2;

/**
 * The first stage, a task of it: events -> the windows that they belong to, aggregated as far as this task goes, as blocks
 * for the lanes of the windows. Events come in any order and without a key; every task knows all queries.
 *
 * <p>An event without a time, or with one more than `ahead` after the clock of the batch, is a dead letter and moves no time.
 * One that a query fails on is counted for that query, and the others see it as if nothing had been.
 */
public final class MatchRows implements FlatMapFunction {
    /** Windows of a task that are held before they are sent: what it holds is bounded, whatever it reads. */
    private static final int MOST_OPEN = 200000;
    private static final IdleCache MATCHERS = new IdleCache("keylane queries");

    private final MatchRules rules;
    private final Queries queries;

    MatchRows(MatchRules rules, Queries queries) {
        this.rules = rules;
        this.queries = queries;
    }

    public Iterator call(Object rows) {
        Matcher kept = (Matcher) MATCHERS.take(queries.name);
        Matcher matcher = kept == null ? Matcher.of(queries.queries) : kept;
        Task task = new Task(rules, matcher);
        for (Iterator all = (Iterator) rows; all.hasNext(); ) {
            task.take((InternalRow) all.next());
        }
        MATCHERS.giveBack(queries.name, matcher);
        return task.rows().iterator();
    }

    /** The place of a window in a task: its start and the values of its group. */
    private static final class Place {
        final long start;
        final Object[] group;

        Place(long start, Object[] group) {
            this.start = start;
            this.group = group;
        }

        public int hashCode() {
            return Long.hashCode(start) * 31 + Arrays.hashCode(group);
        }

        public boolean equals(Object other) {
            return other instanceof Place && ((Place) other).start == start && Arrays.equals(((Place) other).group, group);
        }
    }

    private static final class Task {
        private static final Object[] NONE = new Object[0];
        private static final Object EVENT = Boolean.TRUE;

        private final MatchRules rules;
        private final Matcher matcher;
        private final Output out;
        private final Map[] open;
        /** Of each query the window that was found last: events of one time come together. */
        private final Window[] last;
        private final long[] times;
        private final boolean[] timed;
        private int held;
        private long records;
        private long matched;
        private long pairs;
        private long dead;
        private final Map errors = new TreeMap();
        /** Partition -> the newest of each time field. */
        private final Map newest = new TreeMap();
        private int lastPartition = -1;
        private long[] lastNewest;

        Task(MatchRules rules, Matcher matcher) {
            this.rules = rules;
            this.matcher = matcher;
            out = new Output(rules.slots);
            open = new Map[matcher.queries.length];
            last = new Window[matcher.queries.length];
            times = new long[rules.times.length];
            timed = new boolean[rules.times.length];
        }

        void take(InternalRow row) {
            records++;
            if (!row.isNullAt(MatchRules.MALFORMED)) {
                letter(row, "malformed", row.getUTF8String(MatchRules.MALFORMED).toString());
                return;
            }
            for (int at = 0; at < times.length; at++) {
                timed[at] = !row.isNullAt(MatchRules.TIMES + at);
                if (!timed[at]) {
                    letter(row, "no-time", null);
                    continue;
                }
                times[at] = row.getLong(MatchRules.TIMES + at);
                if (times[at] <= Windows.BEGINNING) {
                    timed[at] = false;
                    letter(row, "no-time", null);
                    continue;
                }
                if (times[at] > rules.clock + rules.ahead) {
                    timed[at] = false;
                    letter(row, "far-future", null);
                    continue;
                }
                long[] reached = newest(row.getInt(MatchRules.PARTITION));
                reached[at] = Math.max(reached[at], times[at]);
            }
            boolean any = false;
            for (int list = 0; list < matcher.lists(); list++) {
                int[] candidates = matcher.candidates(row, list);
                for (int at = 0; candidates != null && at < candidates.length; at++) {
                    any |= match(row, candidates[at]);
                }
            }
            matched += any ? 1 : 0;
        }

        private long[] newest(int partition) {
            if (partition != lastPartition) {
                Integer key = Integer.valueOf(partition);
                lastNewest = (long[]) newest.get(key);
                if (lastNewest == null) {
                    lastNewest = new long[times.length];
                    Arrays.fill(lastNewest, Long.MIN_VALUE);
                    newest.put(key, lastNewest);
                }
                lastPartition = partition;
            }
            return lastNewest;
        }

        private boolean match(InternalRow row, int number) {
            Query query = matcher.queries[number];
            if (!timed[query.time]) {
                return false;
            }
            Object[] group = NONE;
            // Nothing of an event is counted before all of it is worked out: what fails half way would be in half the sums.
            Object[] values = matcher.values[number];
            try {
                if (!matcher.matches(row, number)) {
                    return false;
                }
                if (query.groups.length > 0) {
                    group = new Object[query.groups.length];
                    for (int at = 0; at < group.length; at++) {
                        group[at] = Values.canonical(Values.of(query.groups[at].eval(row)));
                    }
                }
                for (int at = 0; at < values.length; at++) {
                    Expression argument = query.arguments[at];
                    values[at] = argument == null ? EVENT : Values.of(argument.eval(row));
                }
            } catch (RuntimeException failed) {
                error(query, failed);
                return false;
            }
            pairs++;
            long ts = times[query.time];
            Window same = last[number];
            if (same != null && group == NONE && query.slide == query.window && ts >= same.start && ts < same.end) {
                same.add(values);
                return true;
            }
            for (long start = Math.floorDiv(ts, query.slide) * query.slide; start > ts - query.window; start -= query.slide) {
                Window window = rules.partial ? window(query, number, start, group) : made(query, start, group);
                window.add(values);
                if (!rules.partial) {
                    window.put(out.to(rules.lanes.of(query.hash, start, query.slide)), Window.WINDOW);
                }
            }
            if (held > MOST_OPEN) {
                send();
            }
            return true;
        }

        private Window window(Query query, int number, long start, Object[] group) {
            Window before = last[number];
            if (before != null && before.start == start && group == NONE) {
                return before;
            }
            Map windows = open[number];
            if (windows == null) {
                windows = new HashMap();
                open[number] = windows;
            }
            Object place = group == NONE ? (Object) Long.valueOf(start) : new Place(start, group);
            Window found = (Window) windows.get(place);
            if (found == null) {
                found = made(query, start, group);
                windows.put(place, found);
                held++;
            }
            last[number] = found;
            return found;
        }

        private static Window made(Query query, long start, Object[] group) {
            long end = start + query.window;
            Window window = new Window(start, end, query.id, query.timeName, group, end + query.lateness, query.corrects,
                query.aggregates());
            window.partials = 1L;
            return window;
        }

        private void error(Query query, RuntimeException failed) {
            Object[] known = (Object[]) errors.get(query.id);
            if (known == null) {
                String text = String.valueOf(failed.getMessage());
                int end = text.indexOf('\n');
                known = new Object[] {new long[1], end < 0 ? text : text.substring(0, end)};
                errors.put(query.id, known);
            }
            ((long[]) known[0])[0]++;
        }

        private void letter(InternalRow row, String reason, String line) {
            dead++;
            StringBuilder text = new StringBuilder("{\"source\":");
            String at = row.isNullAt(MatchRules.OFFSET) ? InputFileBlockHolder.getInputFilePath().toString()
                : rules.stream + "/" + row.getInt(MatchRules.PARTITION) + "/" + row.getLong(MatchRules.OFFSET);
            Values.quoted(text, at);
            text.append(",\"reason\":\"").append(reason).append("\",\"original\":");
            Values.quoted(text, line == null ? original(row) : line);
            String json = text.append('}').toString();
            out.passingTo(0).begin(Rows.DEAD).putBytes(json.getBytes(StandardCharsets.UTF_8)).end();
        }

        /** The columns that queries need, as JSON. */
        private String original(InternalRow row) {
            StringBuilder text = new StringBuilder("{");
            for (int at = MatchRules.TIMES + times.length; at < rules.schema.length(); at++) {
                text.append(text.length() == 1 ? "" : ",");
                Values.quoted(text, rules.schema.apply(at).name());
                text.append(':');
                DataType type = rules.schema.apply(at).dataType();
                Object value = row.isNullAt(at) ? null : row.get(at, type);
                try {
                    Values.json(text, Values.of(value));
                } catch (IllegalArgumentException nested) {
                    Values.quoted(text, value.toString());
                }
            }
            return text.append('}').toString();
        }

        private void send() {
            for (int number = 0; number < open.length; number++) {
                if (open[number] == null) {
                    continue;
                }
                Query query = matcher.queries[number];
                for (Iterator all = open[number].values().iterator(); all.hasNext(); ) {
                    Window window = (Window) all.next();
                    window.put(out.to(rules.lanes.of(query.hash, window.start, query.slide)), Window.WINDOW);
                }
                open[number] = null;
                last[number] = null;
            }
            held = 0;
        }

        List rows() {
            send();
            for (Iterator all = newest.entrySet().iterator(); all.hasNext(); ) {
                Map.Entry one = (Map.Entry) all.next();
                long[] reached = (long[]) one.getValue();
                for (int at = 0; at < times.length; at++) {
                    for (int slot = 0; slot < rules.slots.count && reached[at] != Long.MIN_VALUE; slot++) {
                        Windows.time(out.to(slot), rules.times[at], ((Integer) one.getKey()).intValue(), reached[at]);
                    }
                }
            }
            out.passingTo(0).begin(Block.COUNTS).putBytes(counts().getBytes(StandardCharsets.UTF_8)).end();
            List made = new ArrayList();
            List tuples = out.rows();
            for (int at = 0; at < tuples.size(); at++) {
                Tuple2 one = (Tuple2) tuples.get(at);
                made.add(RowFactory.create(new Object[] {one._1(), one._2()}));
            }
            return made;
        }

        private String counts() {
            StringBuilder text = new StringBuilder("{\"step\":\"match\",\"records\":").append(records);
            text.append(",\"matched\":").append(matched).append(",\"pairs\":").append(pairs);
            text.append(",\"dead\":").append(dead).append(",\"compared\":").append(matcher.compared()).append(",\"errors\":{");
            for (Iterator all = errors.entrySet().iterator(); all.hasNext(); ) {
                Map.Entry one = (Map.Entry) all.next();
                Object[] known = (Object[]) one.getValue();
                Values.quoted(text, (String) one.getKey());
                text.append(":[").append(((long[]) known[0])[0]).append(',');
                Values.quoted(text, (String) known[1]);
                text.append(all.hasNext() ? "]," : "]");
            }
            return text.append("}}").toString();
        }
    }
}
