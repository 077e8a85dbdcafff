package keylane;

import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Records of one writer of one batch in a Kafka transaction: exactly once for readers at read_committed.
 *
 * <p>The rule. The writer opens the transaction of its name: that ends every earlier holder of the name and whatever it
 * had open; from then on no zombie can commit. Only then does it read, for each of its units, the number that was last
 * committed; a unit whose number is beyond this batch is there already, and is passed over. The rest is sent, and in
 * the same transaction each unit that had records commits the batch's number + 1, with the count of its records and the
 * digest of the batch's offsets, as an offset of a group that nobody joins. Records and number are there together or not
 * at all. A unit that has this number by another digest has other records under it, and the batch is refused. One that
 * is further still is right for a zombie, whose result nobody reads, and wrong for a driver that lives: it is reported,
 * and the driver refuses (keylane.systems.kafka.target).
 *
 * <pre>
 *   batch 7, lanes 0 and 2 of writer 0      committed {0: 8, 2: 7}    lane 0 has batch 7, lane 2 has not
 *   lane 0 is passed over; lane 2 is sent; commit {2: 8}              a third run would find {0: 8, 2: 8}
 * </pre>
 *
 * <p>A unit without records commits nothing: its number says how far it has come, and a replay has no records for it
 * either. Another lane count or another division is safe only from one batch to the next, so both are written down
 * before a batch begins (keylane.systems.messages.state). Do not use this where two routes write one lane and their
 * records must not mix.
 */
final class Transaction extends Delivery {
    private final Map committed = new HashMap();
    private boolean[] there;
    private boolean open;

    Transaction(Batch batch) {
        super(batch, Collections.singletonMap("transactional.id", batch.name));
    }

    /** Fence every earlier holder of the name, then read how far each unit is: the other order proves nothing. */
    void begin() throws Exception {
        producer.initTransactions();
        batch.at("fenced");
        readNumbers();
        checkSameBatch();
        there = new boolean[counts.length];
        for (int slot = 0; slot < there.length; slot++) {
            there[slot] = numberOf(batch.placeOf(slot)) > batch.number;
        }
        producer.beginTransaction();
        open = true;
    }

    /** At read_committed, which waits for numbers that a transaction of another name still holds open. */
    private void readNumbers() {
        HashMap settings = new HashMap(batch.reader);
        settings.put("group.id", batch.group);
        KafkaConsumer consumer = new KafkaConsumer(settings);
        try {
            committed.putAll(consumer.committed(new HashSet(batch.places())));
        } finally {
            consumer.close(Duration.ZERO);
        }
    }

    private long numberOf(TopicPartition place) {
        OffsetAndMetadata found = (OffsetAndMetadata) committed.get(place);
        return found == null ? -1L : found.offset();
    }

    boolean isThere(int slot) {
        return there[slot];
    }

    long beyond(int slot) {
        long number = numberOf(batch.placeOf(slot));
        return number > batch.number + 1 ? number : 0L;
    }

    /** Nobody has to listen: a record that was not taken fails the commit. */
    void send(ProducerRecord record) throws Exception {
        producer.send(record);
    }

    void end() throws Exception {
        Map sent = sent();
        checkRepeated(sent);
        batch.at("sent");
        Map numbers = new HashMap();
        for (Iterator units = sent.entrySet().iterator(); units.hasNext(); ) {
            Map.Entry unit = (Map.Entry) units.next();
            TopicPartition place = (TopicPartition) unit.getKey();
            if (numberOf(place) <= batch.number) {
                numbers.put(place, new OffsetAndMetadata(batch.number + 1, unit.getValue() + " " + batch.digest));
            }
        }
        if (numbers.isEmpty()) {
            producer.abortTransaction();
        } else {
            producer.sendOffsetsToTransaction(numbers, new ConsumerGroupMetadata(batch.group));
            producer.commitTransaction();
        }
        open = false;
        batch.at("committed");
    }

    /** Records of each unit that had any. */
    private Map sent() {
        Map out = new HashMap();
        for (int slot = 0; slot < counts.length; slot++) {
            if (counts[slot] > 0) {
                TopicPartition place = batch.placeOf(slot);
                Long before = (Long) out.get(place);
                out.put(place, Long.valueOf(counts[slot] + (before == null ? 0L : before.longValue())));
            }
        }
        return out;
    }

    /** A unit that has this number must have it from the same offsets, or an older state makes another batch of it. */
    private void checkSameBatch() {
        List places = batch.places();
        for (int at = 0; at < places.size(); at++) {
            TopicPartition place = (TopicPartition) places.get(at);
            String found = committedOf(place, 1);
            if (found != null && !found.equals(batch.digest)) {
                throw WriteError.permanent("batch " + batch.number + " of " + batch.unit(place)
                    + " was committed with other records: the state of the route is older than the target, or another"
                    + " copy of it was used; restore the newest state, or start a new route");
            }
        }
    }

    /** A unit that has this very batch must have as many records of it as there are now, or a batch has changed. */
    private void checkRepeated(Map sent) {
        List places = batch.places();
        for (int at = 0; at < places.size(); at++) {
            TopicPartition place = (TopicPartition) places.get(at);
            String found = committedOf(place, 0);
            Object now = sent.get(place) == null ? "0" : sent.get(place).toString();
            if (found != null && !found.equals(now)) {
                throw WriteError.permanent("batch " + batch.number + " of " + batch.unit(place)
                    + " was committed with " + found + " records and has " + now
                    + " now: the source has changed under it");
            }
        }
    }

    /** What was committed beside the number of this very batch: its count, and the digest; null where it is another. */
    private String committedOf(TopicPartition place, int part) {
        OffsetAndMetadata found = (OffsetAndMetadata) committed.get(place);
        if (found == null || found.offset() != batch.number + 1) {
            return null;
        }
        String[] parts = found.metadata().split(" ");
        return part < parts.length ? parts[part] : "";
    }

    /** What cannot be aborted here is ended by the next holder of the name. */
    void giveUp() {
        if (open) {
            try {
                producer.abortTransaction();
            } catch (RuntimeException ignored) {
                // What went wrong before is what is reported.
                return;
            }
        }
    }
}
