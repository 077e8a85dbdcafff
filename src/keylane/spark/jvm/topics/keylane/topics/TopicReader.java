package keylane.topics;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import keylane.blocks.RecordPacker;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Tuple2;

/** Reads the ranges of a task: rows of what is not plain as it comes, and at the end the blocks. */
final class TopicReader implements PartitionReader {
    private static final Duration POLL = Duration.ofMillis(500L);
    /** After so long without a record the ends are looked at: what is wanted may be gone. */
    private static final long LOOK_MS = 5000L;
    private static final long GIVE_UP_MS = 120000L;

    private final TopicTask task;
    private final UTF8String topic;
    private final RecordPacker packer;
    private final Map ranges = new HashMap();
    private final Set open = new HashSet();
    private final ArrayDeque rows = new ArrayDeque();
    private TopicConsumers held;
    private boolean isDone;
    private Object row;

    TopicReader(TopicTask task) {
        this.task = task;
        topic = UTF8String.fromString(task.topic);
        packer = task.packer.packer(task.clock);
        for (int at = 0; at < task.ranges.length; at++) {
            ranges.put(new TopicPartition(task.topic, task.ranges[at].partition), task.ranges[at]);
        }
    }

    public boolean next() {
        while (rows.isEmpty() && !isDone) {
            if (held == null) {
                begin();
            } else if (open.isEmpty()) {
                end();
            } else {
                poll();
            }
        }
        row = rows.poll();
        return row != null;
    }

    public Object get() {
        return row;
    }

    /** A consumer that stopped half way is not used again. */
    public void close() {
        if (held != null) {
            held.close();
            held = null;
        }
    }

    private void begin() {
        held = TopicConsumers.take(task);
        held.assign(ranges.keySet());
        for (Iterator all = ranges.keySet().iterator(); all.hasNext(); ) {
            TopicPartition partition = (TopicPartition) all.next();
            TopicRange range = (TopicRange) ranges.get(partition);
            List fetched = held.moveTo(partition, range.from);
            if (fetched == null || !take(partition, range, fetched)) {
                open.add(partition);
            }
        }
        Set rest = new HashSet(held.consumer.assignment());
        rest.removeAll(open);
        held.consumer.pause(rest);
        held.consumer.resume(open);
    }

    private void poll() {
        long since = System.currentTimeMillis();
        while (true) {
            ConsumerRecords polled = held.consumer.poll(POLL);
            List done = new ArrayList();
            for (Iterator all = polled.partitions().iterator(); all.hasNext(); ) {
                TopicPartition partition = (TopicPartition) all.next();
                if (take(partition, (TopicRange) ranges.get(partition), polled.records(partition))) {
                    done.add(partition);
                }
            }
            // What is left of a range may be nothing but markers of transactions, and records that were taken back.
            for (Iterator all = open.iterator(); all.hasNext(); ) {
                TopicPartition partition = (TopicPartition) all.next();
                TopicRange range = (TopicRange) ranges.get(partition);
                if (!done.contains(partition) && held.consumer.position(partition) >= range.to) {
                    held.next.put(partition, Long.valueOf(held.consumer.position(partition)));
                    done.add(partition);
                }
            }
            open.removeAll(done);
            held.consumer.pause(done);
            if (!polled.isEmpty() || open.isEmpty()) {
                return;
            }
            long waited = System.currentTimeMillis() - since;
            if (waited > LOOK_MS) {
                checkEnds();
            }
            if (waited > GIVE_UP_MS) {
                throw new IllegalStateException("no records of topic " + task.topic + " for " + waited / 1000 + " s");
            }
        }
    }

    private void checkEnds() {
        Map ends = held.consumer.endOffsets(open);
        for (Iterator all = open.iterator(); all.hasNext(); ) {
            TopicPartition partition = (TopicPartition) all.next();
            TopicRange range = (TopicRange) ranges.get(partition);
            long end = ((Long) ends.get(partition)).longValue();
            if (end < range.to) {
                throw new IllegalStateException("[KAFKA_DATA_LOSS] records of " + partition + " are gone: it ends at " + end
                    + ", and was read to " + range.to + " before");
            }
        }
    }

    /** Take records of a range; whether its end is reached: what comes after it is kept for the next batch. */
    private boolean take(TopicPartition partition, TopicRange range, List records) {
        int count = records.size();
        for (int at = 0; at < count; at++) {
            ConsumerRecord record = (ConsumerRecord) records.get(at);
            if (record.offset() >= range.to) {
                held.ahead.put(partition, new ArrayList(records.subList(at, count)));
                held.next.put(partition, Long.valueOf(range.to));
                return true;
            }
            byte[] key = (byte[]) record.key();
            byte[] value = (byte[]) record.value();
            if (!packer.pack(range.partition, record.offset(), key, value)) {
                InternalRow read = row(record, key, value);
                if (!packer.packRow(read)) {
                    rows.add(read);
                }
            }
            if (record.offset() == range.to - 1L) {
                if (at + 1 < count) {
                    held.ahead.put(partition, new ArrayList(records.subList(at + 1, count)));
                }
                held.next.put(partition, Long.valueOf(range.to));
                return true;
            }
        }
        return false;
    }

    private InternalRow row(ConsumerRecord record, byte[] key, byte[] value) {
        return new GenericInternalRow(new Object[] {key, value, topic, Integer.valueOf(record.partition()),
            Long.valueOf(record.offset()), Long.valueOf(record.timestamp() * 1000L), Long.valueOf(task.clock), null, null});
    }

    private void end() {
        TopicConsumers.giveBack(task, held);
        held = null;
        isDone = true;
        for (int at = 0; at < task.ranges.length; at++) {
            packer.end(task.ranges[at].partition, task.ranges[at].unread);
        }
        for (Iterator all = packer.rows().iterator(); all.hasNext(); ) {
            Tuple2 block = (Tuple2) all.next();
            rows.add(new GenericInternalRow(new Object[] {null, null, topic, null, null, null, Long.valueOf(task.clock),
                block._1(), block._2()}));
        }
    }
}
