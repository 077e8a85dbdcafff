package keylane;

import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.InvalidPidMappingException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordBatchTooLargeException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TransactionAbortedException;
import org.apache.kafka.common.errors.TransactionCoordinatorFencedException;
import org.apache.kafka.common.errors.TransactionalIdNotFoundException;
import org.apache.kafka.common.errors.UnknownProducerIdException;
import org.apache.kafka.common.errors.UnknownServerException;

/**
 * A delivery that did not happen, or of which nobody knows, as text: it crosses from a task to the driver, where no
 * class of this package is known. Read by keylane.spark.kafka_writer.
 */
final class WriteError {
    private static final String MARK = "keylane.WriteError: ";
    private static final String PERMANENT = "not to be tried again: ";

    private WriteError() {}

    /** One that would come again in the same way. */
    static IllegalStateException permanent(String text) {
        return new IllegalStateException(MARK + PERMANENT + text);
    }

    /** What a client or broker reported. `largest` says which record was the largest of those that were sent. */
    static IllegalStateException of(KafkaException error, Batch batch, long ms, String largest) {
        Throwable cause = cause(error);
        boolean late = batch.exactlyOnce && ms > batch.transactionMs;
        String hint = late ? "; it took longer than transaction.timeout.ms: lower --max-records" : hint(cause, largest);
        String brokers = "no broker answers at " + batch.producer.get("bootstrap.servers") + ": ";
        String words = cause instanceof TimeoutException ? brokers : "";
        String reported = cause.getClass().getSimpleName() + ": " + ("" + cause.getMessage()).replace('\n', ' ');
        String text = "writer " + batch.shown + " of batch " + batch.number + ": " + words + reported + hint;
        return late || isPermanent(error, cause) ? permanent(text) : new IllegalStateException(MARK + text);
    }

    /** What to do about it. The limits of a topic are read when a batch is planned: these were changed after that. */
    private static String hint(Throwable cause, String largest) {
        if (cause instanceof RecordTooLargeException || cause instanceof RecordBatchTooLargeException) {
            return "; " + largest + "; hint: raise max.message.bytes of the topic to what it was, and run again";
        }
        if (cause instanceof InvalidTimestampException) {
            return "; hint: raise message.timestamp.before.max.ms and after.max.ms of the topic, and run again";
        }
        return "";
    }

    /** The error of a broker or client that others are wrapped around. */
    private static Throwable cause(Throwable error) {
        Throwable found = error;
        while (!(found instanceof ApiException) && found.getCause() != null) {
            found = found.getCause();
        }
        return found;
    }

    /**
     * Whether it would come again: what Kafka itself does not call passing does, but for the ends of a transaction or a
     * producer, after which a new one goes on.
     */
    private static boolean isPermanent(Throwable error, Throwable cause) {
        if (("" + error.getMessage()).startsWith("Failed to construct kafka") || cause instanceof ConfigException
            || cause instanceof SerializationException || cause instanceof IllegalArgumentException
            || cause instanceof InvalidOffsetException) {
            return true;
        }
        return cause instanceof ApiException && !(cause instanceof RetriableException) && !isEnd(cause);
    }

    private static boolean isEnd(Throwable cause) {
        return cause instanceof ProducerFencedException
            || cause instanceof InvalidProducerEpochException
            || cause instanceof InvalidPidMappingException
            || cause instanceof InvalidTxnStateException
            || cause instanceof OutOfOrderSequenceException
            || cause instanceof TransactionAbortedException
            || cause instanceof TransactionCoordinatorFencedException
            || cause instanceof TransactionalIdNotFoundException
            || cause instanceof UnknownProducerIdException
            || cause instanceof UnknownServerException;
    }
}
