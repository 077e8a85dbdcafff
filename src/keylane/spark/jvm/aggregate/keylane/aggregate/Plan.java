package keylane.aggregate;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import keylane.blocks.Output;
import keylane.blocks.Slots;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/** The three stages: events -> parts of windows (matched), and, as one plan, windows -> results in order (results). */
public final class Plan {
    private static final String BLOCKS = "_1 int, _2 binary";

    /** Queries made ready for events of these columns. */
    public Queries queries(Dataset events, String definitions, String allowed) throws IOException {
        return new Queries(events, definitions, allowed);
    }

    /** Events, in the columns of MatchRules, as blocks of parts of windows. */
    public Dataset matched(Dataset events, Queries queries, List times, Map given) {
        MatchRules rules = new MatchRules(((Integer) given.get("lanes")).intValue(),
            ((Boolean) given.get("by_window")).booleanValue(), times, events.schema(),
            Long.parseLong((String) given.get("clock")), Long.parseLong((String) given.get("ahead")),
            ((Boolean) given.get("partial")).booleanValue(), (String) given.get("stream"));
        org.apache.spark.sql.classic.Dataset classic = (org.apache.spark.sql.classic.Dataset) events;
        return events.sparkSession().createDataFrame(
            classic.queryExecution().toRdd().toJavaRDD().mapPartitions(new MatchRows(rules, queries)),
            StructType.fromDDL(BLOCKS));
    }

    /** Blocks that end a source, as rows of a slot's key and bytes: with them every window of these time fields is due. */
    public List ended(int lanes, List times) {
        Output out = new Output(new Slots(lanes));
        for (int slot = 0; slot < lanes; slot++) {
            for (int at = 0; at < times.size(); at++) {
                Windows.end(out.to(slot), (String) times.get(at));
            }
        }
        List rows = new ArrayList();
        List tuples = out.rows();
        for (int at = 0; at < tuples.size(); at++) {
            Tuple2 one = (Tuple2) tuples.get(at);
            rows.add(one._1());
            rows.add(one._2());
        }
        return rows;
    }

    /** Blocks -> rows of a kind and a text. */
    public Dataset results(Dataset blocks, int lanes) {
        Slots slots = new Slots(lanes);
        Dataset delivered = new Deliver(slots).after(new Windows(slots).after(blocks));
        return delivered.mapPartitions(new Rows(), Encoders.row(StructType.fromDDL(Rows.SCHEMA)));
    }

    /** The lane of a window, as the tests compare it with Python's. */
    public int lane(String query, long start, long slide, int lanes, boolean byWindow) {
        return new QueryLanes(lanes, byWindow).of(QueryLanes.hash(query), start, slide);
    }

    /** Drop what a query that has ended left in memory; how many slots. */
    public int forget(String query) {
        return keylane.blocks.BlockStep.forget(query);
    }
}
