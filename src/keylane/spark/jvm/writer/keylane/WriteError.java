package keylane;

import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidTxnTimeoutException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;

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

    static IllegalStateException of(KafkaException error, Batch batch, long ms) {
        Throwable cause = cause(error);
        boolean late = batch.exactlyOnce && ms > batch.transactionMs;
        String hint = late ? "; it took longer than transaction.timeout.ms: lower --max-records" : "";
        String brokers = "no broker answers at " + batch.producer.get("bootstrap.servers") + ": ";
        String words = cause instanceof TimeoutException ? brokers : "";
        String said = cause.getClass().getSimpleName() + ": " + ("" + cause.getMessage()).replace('\n', ' ');
        String text = "writer " + batch.shown + " of batch " + batch.number + ": " + words + said + hint;
        return late || isPermanent(error, cause) ? permanent(text) : new IllegalStateException(MARK + text);
    }

    /** The error of a broker or client that others are wrapped around. */
    private static Throwable cause(Throwable error) {
        Throwable found = error;
        while (!(found instanceof ApiException) && found.getCause() != null) {
            found = found.getCause();
        }
        return found;
    }

    private static boolean isPermanent(Throwable error, Throwable cause) {
        return ("" + error.getMessage()).startsWith("Failed to construct kafka")
            || cause instanceof AuthenticationException
            || cause instanceof AuthorizationException
            || cause instanceof ConfigException
            || cause instanceof InvalidTxnTimeoutException
            || cause instanceof RecordTooLargeException
            || cause instanceof SerializationException
            || cause instanceof UnsupportedVersionException;
    }
}
