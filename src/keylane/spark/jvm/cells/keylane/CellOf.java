package keylane;

import com.uber.h3core.H3Core;
import com.uber.h3core.H3CoreLoader;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/**
 * The H3 cell of a place at one resolution, null where latitude or longitude is. Any other pair of numbers has one, also
 * those that are no place: who calls has asked before. Used by keylane.spark.cells_java.
 *
 * A function of Spark's public interface and no static call: generated code holds the object itself and needs no name of
 * this class, so a class that came after the session's start will do. Raw types: the compiler knows no others.
 */
public final class CellOf implements UDF2 {
    /** One for each process: it loads a native library. */
    private static final H3Core H3 = core();

    private int resolution;

    private static H3Core core() {
        try {
            synchronized (H3CoreLoader.class) {
                H3Core core = H3Core.newInstance();
                removeUnpacked();
                return core;
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /**
     * Removes the file that the native library was unpacked into: it is loaded, and the end of a session leaves it behind.
     * The loader forgets it, so that another who asks gets one of his own. Where that cannot be, the file stays.
     */
    private static void removeUnpacked() {
        try {
            Field known = H3CoreLoader.class.getDeclaredField("libraryFile");
            known.setAccessible(true);
            File file = (File) known.get(null);
            if (file != null && file.delete()) {
                known.set(null, null);
            }
        } catch (Exception stays) {
            return;
        }
    }

    public CellOf at(int finest) {
        resolution = finest;
        return this;
    }

    public Object call(Object latitude, Object longitude) {
        if (latitude == null || longitude == null) {
            return null;
        }
        return Long.valueOf(of(((Double) latitude).doubleValue(), ((Double) longitude).doubleValue()));
    }

    public long of(double latitude, double longitude) {
        return H3.latLngToCell(latitude, longitude, resolution);
    }

    public Column column(Column latitude, Column longitude) {
        Column[] place = new Column[] {latitude, longitude};
        return functions.udf((UDF2) this, DataTypes.LongType).withName("cell").apply(place);
    }
}
