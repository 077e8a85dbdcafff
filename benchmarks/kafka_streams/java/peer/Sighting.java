package peer;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;

/** A record of either input: a ping of a driver, or a request of a rider, who is always available. */
public final class Sighting {
    private static final ObjectReader JSON =
        new ObjectMapper(JsonFactory.builder().enable(StreamReadFeature.USE_FAST_DOUBLE_PARSER).build())
            .readerFor(Sighting.class);

    public String id;
    public long ts;
    public double lat;
    public double lng;
    public boolean available = true;

    static Sighting of(Object value) {
        try {
            return (Sighting) JSON.readValue((byte[]) value);
        } catch (Exception e) {
            throw new IllegalArgumentException("not a sighting", e);
        }
    }
}
