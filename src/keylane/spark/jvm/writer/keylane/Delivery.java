package keylane;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.spark.sql.Row;

/** Records of one writer of one batch on their way, at least once: what is sent stays, whatever becomes of the task. */
class Delivery implements Callback {
    private static final String SOURCE = "keylane.source";

    final Batch batch;
    final long[] counts;
    final KafkaProducer producer;
    private int prefixOf = -1;
    private String prefix;
    private volatile Exception failed;
    /** The largest record that was sent: the first that a topic with a lower limit would refuse. */
    private long largest = -1L;
    private String largestAt;

    Delivery(Batch batch, Map more) {
        this.batch = batch;
        counts = new long[batch.slots.length];
        HashMap settings = new HashMap(batch.producer);
        settings.putAll(more);
        producer = new KafkaProducer(settings);
    }

    void begin() throws Exception {
        batch.at("fenced");
    }

    void send(Row row) throws Exception {
        batch.check(row);
        int slot = row.getInt(0);
        counts[slot]++;
        if (isThere(slot)) {
            return;
        }
        TopicPartition to = batch.slots[slot];
        noteSize(row, to);
        send(recordOf(row, to));
    }

    /** What keylane.spark.writable lets pass can be made; what cannot would not be made at another try either. */
    private ProducerRecord recordOf(Row row, TopicPartition to) {
        try {
            Long time = (Long) row.get(3);
            return new ProducerRecord(to.topic(), to.partition(), time, row.get(1), row.get(2), headers(row));
        } catch (IllegalArgumentException refused) {
            throw WriteError.permanent("the record " + position(row) + " cannot be written to " + to.topic() + ": "
                + refused.getMessage());
        }
    }

    private void noteSize(Row row, TopicPartition to) {
        long size = (row.isNullAt(1) ? 0 : ((byte[]) row.get(1)).length) + (row.isNullAt(2) ? 0 : ((byte[]) row.get(2)).length);
        if (size > largest) {
            largest = size;
            largestAt = position(row) + ", into " + to.topic();
        }
    }

    private String position(Row row) {
        byte[] source = row.isNullAt(4) ? spelled(row.getInt(6), row.getLong(7)) : (byte[]) row.get(4);
        return new String(source, StandardCharsets.UTF_8);
    }

    /** The record that was too large, for an error; the largest of those that were sent. */
    String largest() {
        return "the largest record is " + largestAt + ", with " + largest + " bytes in key and value";
    }

    /** Nothing is sent behind a record that was not taken: it would come before it when the batch is tried again. */
    void send(ProducerRecord record) throws Exception {
        checkSent();
        try {
            producer.send(record, this);
        } catch (IllegalStateException closed) {
            checkSent();
            throw closed;
        }
    }

    private RecordHeaders headers(Row row) {
        List own = row.isNullAt(5) ? Collections.EMPTY_LIST : row.getList(5);
        Header[] out = new Header[own.size() + 1 + batch.headers.length];
        int at = 0;
        for (Iterator pairs = own.iterator(); pairs.hasNext(); at++) {
            Row pair = (Row) pairs.next();
            out[at] = new RecordHeader(pair.getString(0), (byte[]) pair.get(1));
        }
        byte[] source = row.isNullAt(4) ? spelled(row.getInt(6), row.getLong(7)) : (byte[]) row.get(4);
        out[at] = new RecordHeader(SOURCE, source);
        System.arraycopy(batch.headers, 0, out, at + 1, batch.headers.length);
        return new RecordHeaders(out);
    }

    /** TOPIC/PARTITION/OFFSET. */
    private byte[] spelled(int part, long place) {
        if (part != prefixOf) {
            prefixOf = part;
            prefix = batch.source + "/" + part + "/";
        }
        return (prefix + place).getBytes(StandardCharsets.ISO_8859_1);
    }

    public void onCompletion(RecordMetadata metadata, Exception error) {
        if (error != null && failed == null) {
            failed = error;
            producer.close(Duration.ZERO);
        }
    }

    /** Wait until everything is acknowledged. */
    void end() throws Exception {
        batch.at("sent");
        producer.flush();
        checkSent();
        batch.at("committed");
    }

    void checkSent() throws Exception {
        if (failed != null) {
            throw failed;
        }
    }

    boolean isThere(int slot) {
        return false;
    }

    /** The number that was found for a slot where it is beyond this batch and the next; otherwise 0. */
    long beyond(int slot) {
        return 0L;
    }

    void giveUp() {}

    void close() {
        producer.close(Duration.ZERO);
    }
}
