package keylane;

import com.uber.h3core.H3Core;
import keylane.h3.H3Library;
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
    private static final H3Core H3 = H3Library.loaded();

    private int resolution;

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
