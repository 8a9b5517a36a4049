import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonPrimitive;
import io.siddhi.query.api.definition.Attribute;
import java.util.Collection;

/** Values of events as cases have them in JSON. */
final class Values {
    private Values() {
    }

    /** Return the value of an attribute of that type. */
    static Object read(JsonElement value, Attribute.Type type) {
        if (value.isJsonNull()) {
            return null;
        }
        switch (type) {
            case INT:
                return value.getAsInt();
            case LONG:
                return value.getAsLong();
            case FLOAT:
                return Float.valueOf(value.getAsString());
            case DOUBLE:
                return Double.valueOf(value.getAsString());
            case BOOL:
                return value.getAsBoolean();
            case STRING:
                return value.getAsString();
            default:
                return object(value);
        }
    }

    private static Object object(JsonElement value) {
        if (!value.isJsonPrimitive()) {
            return value.toString();
        }
        JsonPrimitive primitive = value.getAsJsonPrimitive();
        if (primitive.isBoolean()) {
            return primitive.getAsBoolean();
        }
        if (primitive.isString()) {
            return primitive.getAsString();
        }
        double number = primitive.getAsDouble();
        String text = primitive.getAsString();
        if (text.contains(".") || text.contains("e") || text.contains("E")) {
            return number;
        }
        long whole = primitive.getAsLong();
        return whole == (int) whole ? (Object) (int) whole : (Object) whole;
    }

    /** Return the JSON of a value: no numbers for NaN and infinities, an array for lists and sets. */
    static JsonElement written(Object value) {
        if (value == null) {
            return JsonNull.INSTANCE;
        }
        if (value instanceof Double || value instanceof Float) {
            double number = ((Number) value).doubleValue();
            boolean isNumber = !Double.isNaN(number) && !Double.isInfinite(number);
            return isNumber ? new JsonPrimitive((Number) value) : new JsonPrimitive(value.toString());
        }
        if (value instanceof Number) {
            return new JsonPrimitive((Number) value);
        }
        if (value instanceof Boolean) {
            return new JsonPrimitive((Boolean) value);
        }
        if (value instanceof Collection) {
            JsonArray array = new JsonArray();
            for (Object item : (Collection<?>) value) {
                array.add(written(item));
            }
            return array;
        }
        return new JsonPrimitive(value.toString());
    }
}
