package keylane.aggregate;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.expressions.Expression;

/** A standing query as the matching needs it: bound to the columns of the events. Times are microseconds. */
final class Query implements Serializable {
    final String id;
    final int hash;
    /** The ordinal of its time among the time columns. */
    final int time;
    final String timeName;
    final long window;
    final long slide;
    final long lateness;
    final boolean corrects;
    Expression filter;
    Expression[] groups;
    byte[] kinds;
    /** Null for count(*). */
    Expression[] arguments;
    double[][] given;

    Query(String id, int time, String timeName, long window, long slide, long lateness, boolean corrects) {
        this.id = id;
        this.hash = QueryLanes.hash(id);
        this.time = time;
        this.timeName = timeName;
        this.window = window;
        this.slide = slide;
        this.lateness = lateness;
        this.corrects = corrects;
    }

    Aggregate[] aggregates() {
        Aggregate[] made = new Aggregate[kinds.length];
        for (int at = 0; at < kinds.length; at++) {
            made[at] = Aggregate.of(kinds[at], given[at]);
        }
        return made;
    }
}
