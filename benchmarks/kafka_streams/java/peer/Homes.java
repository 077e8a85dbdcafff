package peer;

import java.nio.ByteBuffer;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;

/** Which lane each driver is in: when it arrives in another, the older of the two lanes is told to forget it. */
final class Homes implements Processor {
    private final Names names;
    private final Counts counts;
    private ProcessorContext context;
    private KeyValueStore store;

    Homes(Names names, Counts counts) {
        this.names = names;
        this.counts = counts;
    }

    public void init(ProcessorContext context) {
        this.context = context;
        this.store = (KeyValueStore) context.getStateStore(names.homes);
    }

    public void process(Record record) {
        byte[] arrival = (byte[]) record.value();
        byte[] known = (byte[]) store.get(record.key());
        boolean isNewer = known == null || ts(arrival) >= ts(known);
        if (isNewer) {
            store.put(record.key(), arrival);
        }
        if (known != null && lane(known) != lane(arrival)) {
            long since = Math.max(ts(known), ts(arrival));
            byte[] left = ByteBuffer.allocate(12).putLong(since).putInt(lane(isNewer ? known : arrival)).array();
            counts.leftOut.increment();
            context.forward(new Record(record.key(), left, since));
        }
        counts.ended();
        counts.arrivedIn.increment();
    }

    static long ts(byte[] value) {
        return ByteBuffer.wrap(value).getLong();
    }

    static int lane(byte[] value) {
        return ByteBuffer.wrap(value).getInt(8);
    }
}
