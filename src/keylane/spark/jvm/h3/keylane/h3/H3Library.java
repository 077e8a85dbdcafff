package keylane.h3;

import com.uber.h3core.H3Core;
import com.uber.h3core.H3CoreLoader;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;

/** The native library of H3, loaded once by each class that holds it. Used by keylane.CellOf and keylane.match.Cells. */
public final class H3Library {
    private H3Library() {
    }

    /** H3, with nothing left behind on the disk. */
    public static H3Core loaded() {
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
}
