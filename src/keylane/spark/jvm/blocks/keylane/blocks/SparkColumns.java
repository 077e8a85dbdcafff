package keylane.blocks;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.LogicalRDD;
import scala.collection.immutable.Seq;

/**
 * Columns of Spark that are worked out for one row at a time, where a record is read: analysed and optimized once, on the
 * driver, and compiled in a task that meets a record which needs them. So they are in no plan, and a batch in which no
 * record needs them pays nothing for them.
 *
 * <p>Only for columns that need nothing but their row: a function in Python is a step of a plan, and stays one.
 */
public final class SparkColumns implements Serializable {
    /** Compiled, each used by one task at a time. */
    private static final IdleCache COMPILED = new IdleCache("keylane columns");

    /** The lists of expressions and of their inputs, one after the other, serialized: most tasks never look at them. */
    private final byte[] steps;
    private final String name;

    private SparkColumns(byte[] steps) {
        this.steps = steps;
        name = UUID.nameUUIDFromBytes(steps).toString();
    }

    /** The columns of a frame over rows of an RDD; null where the frame is more than columns. */
    public static SparkColumns of(Dataset frame) throws IOException {
        List steps = new ArrayList();
        LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset) frame).queryExecution().optimizedPlan();
        while (plan instanceof Project) {
            LogicalPlan child = ((Project) plan).child();
            steps.add(0, new Object[] {((Project) plan).projectList(), child.output()});
            plan = child;
        }
        if (!(plan instanceof LogicalRDD) || steps.isEmpty()) {
            return null;
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        ObjectOutputStream objects = new ObjectOutputStream(bytes);
        objects.writeObject(steps.toArray());
        objects.close();
        return new SparkColumns(bytes.toByteArray());
    }

    /** The compiled columns, for this task alone until it gives them back. */
    public Compiled take() {
        Compiled kept = (Compiled) COMPILED.take(name);
        return kept == null ? new Compiled(this) : kept;
    }

    public void giveBack(Compiled compiled) {
        COMPILED.giveBack(name, compiled);
    }

    /** The columns as code. */
    public static final class Compiled {
        private final UnsafeProjection[] projections;

        private Compiled(SparkColumns columns) {
            Object[] steps = read(columns.steps);
            projections = new UnsafeProjection[steps.length];
            for (int at = 0; at < steps.length; at++) {
                Object[] step = (Object[]) steps[at];
                projections[at] = UnsafeProjection.create((Seq) step[0], (Seq) step[1]);
            }
        }

        /** The columns of a row; they are there until the next row. */
        public InternalRow of(InternalRow row) {
            InternalRow made = row;
            for (int at = 0; at < projections.length; at++) {
                made = projections[at].apply(made);
            }
            return made;
        }
    }

    private static Object[] read(byte[] steps) {
        try {
            return (Object[]) new Objects(steps).readObject();
        } catch (Exception error) {
            throw new IllegalStateException("columns that cannot be read", error);
        }
    }

    /** By the loader of the thread: that of a task knows all classes of a session. */
    private static final class Objects extends ObjectInputStream {
        Objects(byte[] bytes) throws IOException {
            super(new ByteArrayInputStream(bytes));
        }

        protected Class resolveClass(ObjectStreamClass described) throws IOException, ClassNotFoundException {
            try {
                return Class.forName(described.getName(), false, Thread.currentThread().getContextClassLoader());
            } catch (ClassNotFoundException basic) {
                return super.resolveClass(described);
            }
        }
    }
}
