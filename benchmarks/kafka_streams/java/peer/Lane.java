package peer;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * One lane: the newest position of each driver in it, and an answer to every request of the lane or of a guest.
 *
 * <p>Positions are kept in RocksDB, with a changelog, and mirrored in memory by cell: a request asks the map for the
 * cells of its disk. A driver that is new here is told to Homes, which tells the lane that the driver was in before.
 */
final class Lane implements Processor {
    private final Names names;
    private final Earth earth;
    private final Counts counts;
    private final Map newest = new HashMap();
    private final Map byCell = new HashMap();
    private final double[] metres = new double[1];
    private ProcessorContext context;
    private KeyValueStore store;

    Lane(Names names, Earth earth, Counts counts) {
        this.names = names;
        this.earth = earth;
        this.counts = counts;
    }

    public void init(ProcessorContext context) {
        this.context = context;
        this.store = (KeyValueStore) context.getStateStore(names.positions);
        KeyValueIterator all = store.all();
        while (all.hasNext()) {
            KeyValue entry = (KeyValue) all.next();
            remember(Position.of((String) entry.key, entry.value));
        }
        all.close();
    }

    public void process(Record record) {
        counts.began();
        String topic = ((RecordMetadata) context.recordMetadata().get()).topic();
        if (topic.equals(names.drivers)) {
            ping(Sighting.of(record.value()));
        } else if (topic.equals(names.left)) {
            left((String) record.key(), ByteBuffer.wrap((byte[]) record.value()).getLong());
        } else {
            answer(Sighting.of(record.value()));
        }
        counts.ended();
    }

    /** Older pings are ignored; of equal times the later offset counts, and offsets come in order. */
    private void ping(Sighting ping) {
        Position before = (Position) newest.get(ping.id);
        if (before == null || ping.ts >= before.ts) {
            byte kind = ping.available ? Position.AVAILABLE : Position.AWAY;
            keep(new Position(ping.id, ping.ts, ping.lat, ping.lng, kind));
            if (before == null || before.kind == Position.LEFT) {
                arrived(ping.id, ping.ts);
            }
        }
        counts.pings.increment();
    }

    private void left(String driver, long ts) {
        Position before = (Position) newest.get(driver);
        if (before == null || ts >= before.ts) {
            keep(new Position(driver, ts, 0.0, 0.0, Position.LEFT));
        } else if (before.kind != Position.LEFT) {
            // It came back before the news of its leaving did, so nobody was told that it is here again.
            arrived(driver, before.ts);
        }
        counts.leftIn.increment();
    }

    private void arrived(String driver, long ts) {
        byte[] value = ByteBuffer.allocate(12).putLong(ts).putInt(context.taskId().partition()).array();
        counts.arrivedOut.increment();
        context.forward(new Record(driver, value, ts), names.arrivals);
    }

    private void keep(Position position) {
        remember(position);
        store.put(position.driver, position.stored());
    }

    private void remember(Position position) {
        Position before = (Position) newest.put(position.driver, position);
        if (before != null && before.kind == Position.AVAILABLE) {
            List there = (List) byCell.get(Long.valueOf(before.cell));
            there.remove(before);
            if (there.isEmpty()) {
                byCell.remove(Long.valueOf(before.cell));
            }
        }
        if (position.kind == Position.AVAILABLE) {
            position.cell = earth.cell(position.lat, position.lng);
            Long cell = Long.valueOf(position.cell);
            List there = (List) byCell.get(cell);
            if (there == null) {
                there = new ArrayList(4);
                byCell.put(cell, there);
            }
            there.add(position);
        }
    }

    private void answer(Sighting request) {
        StringBuilder out = new StringBuilder(256);
        out.append("{\"rider_id\":\"").append(request.id).append("\",\"ts\":").append(request.ts).append(",\"pairs\":[");
        int pairs = 0;
        List disk = earth.disk(request.lat, request.lng);
        for (int at = 0; at < disk.size(); at++) {
            List there = (List) byCell.get(disk.get(at));
            for (int one = 0; there != null && one < there.size(); one++) {
                Position position = (Position) there.get(one);
                if (earth.near(request.lat, request.lng, position, metres)) {
                    out.append(pairs++ == 0 ? "" : ",").append("{\"driver_id\":\"").append(position.driver);
                    out.append("\",\"distance_m\":").append(Math.round(metres[0] * 100) / 100.0).append('}');
                }
            }
        }
        context.forward(new Record(request.id, out.append("]}").toString(), request.ts), names.matches);
        counts.pairs.add(pairs);
        counts.answered.increment();
    }
}
