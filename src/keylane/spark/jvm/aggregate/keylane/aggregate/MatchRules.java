package keylane.aggregate;

import java.io.Serializable;
import java.util.List;
import keylane.blocks.Slots;
import org.apache.spark.sql.types.StructType;

/** What a task of the matching has to know beside the queries. Times are microseconds. */
final class MatchRules implements Serializable {
    /** Columns of a row before those of events: partition, offset, a line that could not be read, then the times. */
    static final int PARTITION = 0;
    static final int OFFSET = 1;
    static final int MALFORMED = 2;
    static final int TIMES = 3;

    final Slots slots;
    final QueryLanes lanes;
    final String[] times;
    final StructType schema;
    final long clock;
    final long ahead;
    final boolean partial;
    /** What offsets are of; empty for files. */
    final String stream;

    MatchRules(int lanes, boolean byWindow, List times, StructType schema, long clock, long ahead, boolean partial,
        String stream) {
        this.slots = new Slots(lanes);
        this.lanes = new QueryLanes(lanes, byWindow);
        this.times = (String[]) times.toArray(new String[0]);
        this.schema = schema;
        this.clock = clock;
        this.ahead = ahead;
        this.partial = partial;
        this.stream = stream;
    }
}
