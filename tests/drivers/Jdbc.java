import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringReader;
import java.io.StringWriter;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Array;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.postgresql.PGConnection;
import org.postgresql.util.PGobject;
import org.postgresql.util.PSQLException;

/**
 * Does with pgjdbc what it reads, a command a line: words separated by tabs, \N for null, \t \n \\ escaped.
 * Answers lines of the same form: columns, row, updated, warning, value, error (SQLSTATE, message, hint, position);
 * then "done".
 */
public class Jdbc {
  static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
  static final Map<String, PreparedStatement> PREPARED = new HashMap<>();
  static final Map<String, Savepoint> SAVEPOINTS = new HashMap<>();
  static Connection connection;
  static int fetchSize;

  public static void main(String[] args) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      String[] words = Arrays.stream(line.split("\t", -1)).map(Jdbc::unescaped).toArray(String[]::new);
      try {
        run(words[0], Arrays.copyOfRange(words, 1, words.length));
      } catch (Throwable problem) {
        failed(problem);
      }
      say("done");
      OUT.flush();
    }
  }

  static void run(String command, String[] words) throws Throwable {
    switch (command) {
      case "open" -> open(words);
      case "statement" -> statement(words[0]);
      case "prepared" -> prepared(words);
      case "generic" -> generic(words);
      case "describe" -> describe(words[0]);
      case "batch" -> batch(words);
      case "call" -> call(words);
      case "cancel" -> cancel(words[0]);
      case "meta" -> meta(words);
      case "scroll" -> scroll(words[0]);
      case "copyout" -> copyOut(words[0]);
      case "copyin" -> say("value", String.valueOf(copies().copyIn(words[0], new StringReader(words[1]))));
      case "fetch" -> fetchSize = Integer.parseInt(words[0]);
      case "auto" -> connection.setAutoCommit(Boolean.parseBoolean(words[0]));
      case "commit" -> connection.commit();
      case "rollback" -> connection.rollback();
      case "savepoint" -> SAVEPOINTS.put(words[0], connection.setSavepoint(words[0]));
      case "back" -> connection.rollback(SAVEPOINTS.get(words[0]));
      case "release" -> connection.releaseSavepoint(SAVEPOINTS.get(words[0]));
      case "valid" -> say("value", String.valueOf(connection.isValid(5)));
      case "isolation" -> connection.setTransactionIsolation(Integer.parseInt(words[0]));
      case "readonly" -> connection.setReadOnly(Boolean.parseBoolean(words[0]));
      case "schema" -> connection.setSchema(words[0]);
      default -> throw new IllegalArgumentException(command);
    }
  }

  static void open(String[] words) throws SQLException {
    PREPARED.clear();
    if (connection != null) connection.close();
    connection = null;
    fetchSize = 0;
    var properties = new Properties();
    for (int i = 1; i < words.length; i += 2) properties.setProperty(words[i], words[i + 1]);
    connection = DriverManager.getConnection(words[0], properties);
  }

  static void statement(String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      statement.setFetchSize(fetchSize);
      results(statement, statement.execute(sql));
    }
  }

  static void prepared(String[] words) throws SQLException {
    PreparedStatement statement = PREPARED.get(words[0]);
    if (statement == null) PREPARED.put(words[0], statement = connection.prepareStatement(words[0]));
    statement.setFetchSize(fetchSize);
    for (int i = 1; i < words.length; i += 2) set(statement, (i + 1) / 2, words[i], words[i + 1]);
    results(statement, statement.execute());
  }

  /** setObject(i, value, type), and getObject(i, class) of what comes back. */
  static void generic(String[] words) throws Exception {
    try (PreparedStatement statement = connection.prepareStatement(words[0])) {
      Object value = value(words[1], words[2]);
      if (words.length > 3) statement.setObject(1, value, Types.class.getField(words[3]).getInt(null));
      else statement.setObject(1, value);
      try (ResultSet rows = statement.executeQuery()) {
        rows.next();
        say("value", shown(rows.getObject(1, value.getClass())));
      }
    }
  }

  static void describe(String sql) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      ParameterMetaData parameters = statement.getParameterMetaData();
      String[] types = new String[parameters.getParameterCount() + 1];
      types[0] = "parameters";
      for (int i = 1; i < types.length; i++) types[i] = parameters.getParameterTypeName(i);
      say(types);
      columns(statement.getMetaData());
    }
  }

  static void batch(String[] words) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(words[0])) {
      for (int i = 2; i < words.length; i++) {
        set(statement, 1, words[1], words[i]);
        statement.addBatch();
      }
      say("value", Arrays.toString(statement.executeBatch()));
    }
  }

  static void call(String[] words) throws SQLException {
    try (CallableStatement statement = connection.prepareCall(words[0])) {
      statement.registerOutParameter(1, Types.BIGINT);
      for (int i = 1; i < words.length; i += 2) set(statement, 2 + i / 2, words[i], words[i + 1]);
      statement.execute();
      say("value", String.valueOf(statement.getLong(1)));
    }
  }

  static void cancel(String sql) throws Throwable {
    try (Statement statement = connection.createStatement()) {
      var running = CompletableFuture.runAsync(() -> {
        try {
          statement.execute(sql);
        } catch (SQLException problem) {
          throw new RuntimeException(problem);
        }
      });
      while (!running.isDone()) {
        Thread.sleep(300);
        statement.cancel();
      }
      try {
        running.get();
      } catch (java.util.concurrent.ExecutionException problem) {
        throw problem.getCause().getCause();
      }
    }
  }

  /** Any method of DatabaseMetaData, by name: its result set, or its value. */
  static void meta(String[] words) throws Throwable {
    DatabaseMetaData data = connection.getMetaData();
    for (Method method : DatabaseMetaData.class.getMethods()) {
      Class<?>[] types = method.getParameterTypes();
      if (!method.getName().equals(words[0]) || types.length != words.length - 1) continue;
      Object[] values = new Object[types.length];
      for (int i = 0; i < types.length; i++) {
        String word = words[i + 1];
        values[i] = types[i] == boolean.class ? Boolean.valueOf(word)
            : types[i] == int.class ? Integer.valueOf(word)
            : types[i] == String[].class && word != null ? word.split(",") : word;
      }
      try {
        if (method.invoke(data, values) instanceof ResultSet rows) show(rows);
        else say("value", String.valueOf(method.invoke(data, values)));
      } catch (java.lang.reflect.InvocationTargetException problem) {
        throw problem.getCause();
      }
      return;
    }
    throw new IllegalArgumentException(words[0]);
  }

  /** The last row first: all rows are held, and the statement has been asked once. */
  static void scroll(String sql) throws SQLException {
    try (Statement statement =
            connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY);
        ResultSet rows = statement.executeQuery(sql)) {
      columns(rows.getMetaData());
      rows.afterLast();
      while (rows.previous()) row(rows);
    }
  }

  static org.postgresql.copy.CopyManager copies() throws SQLException {
    return connection.unwrap(PGConnection.class).getCopyAPI();
  }

  static void copyOut(String sql) throws Exception {
    var text = new StringWriter();
    copies().copyOut(sql, text);
    say("value", text.toString());
  }

  static Object value(String type, String word) throws SQLException {
    if (word == null) return null;
    return switch (type) {
      case "short" -> Short.valueOf(word);
      case "int" -> Integer.valueOf(word);
      case "long" -> Long.valueOf(word);
      case "decimal" -> new BigDecimal(word);
      case "float" -> Float.valueOf(word);
      case "double" -> Double.valueOf(word);
      case "boolean" -> Boolean.valueOf(word);
      case "string" -> word;
      case "bytes" -> HexFormat.of().parseHex(word);
      case "date" -> java.sql.Date.valueOf(word);
      case "time" -> java.sql.Time.valueOf(word);
      case "timestamp" -> java.sql.Timestamp.valueOf(word);
      case "localdate" -> LocalDate.parse(word);
      case "localtime" -> LocalTime.parse(word);
      case "localdatetime" -> LocalDateTime.parse(word);
      case "offsetdatetime" -> OffsetDateTime.parse(word);
      case "uuid" -> UUID.fromString(word);
      case "ints" -> connection.createArrayOf("int4", word.split(","));
      case "texts" -> connection.createArrayOf("text", word.split(","));
      default -> {  // any type of PostgreSQL
        var object = new PGobject();
        object.setType(type);
        object.setValue(word);
        yield object;
      }
    };
  }

  static void set(PreparedStatement statement, int index, String type, String word) throws SQLException {
    if (word == null) {
      statement.setNull(index, type.equals("int") ? Types.INTEGER : Types.VARCHAR);
      return;
    }
    switch (type) {
      case "short" -> statement.setShort(index, Short.parseShort(word));
      case "int" -> statement.setInt(index, Integer.parseInt(word));
      case "long" -> statement.setLong(index, Long.parseLong(word));
      case "decimal" -> statement.setBigDecimal(index, new BigDecimal(word));
      case "float" -> statement.setFloat(index, Float.parseFloat(word));
      case "double" -> statement.setDouble(index, Double.parseDouble(word));
      case "boolean" -> statement.setBoolean(index, Boolean.parseBoolean(word));
      case "string" -> statement.setString(index, word);
      case "bytes" -> statement.setBytes(index, HexFormat.of().parseHex(word));
      case "date" -> statement.setDate(index, java.sql.Date.valueOf(word));
      case "time" -> statement.setTime(index, java.sql.Time.valueOf(word));
      case "timestamp" -> statement.setTimestamp(index, java.sql.Timestamp.valueOf(word));
      case "ints", "texts" -> statement.setArray(index, (Array) value(type, word));
      default -> statement.setObject(index, value(type, word));
    }
  }

  static void results(Statement statement, boolean rows) throws SQLException {
    while (true) {
      if (rows) show(statement.getResultSet());
      else if (statement.getUpdateCount() >= 0) say("updated", String.valueOf(statement.getUpdateCount()));
      else break;
      rows = statement.getMoreResults();
    }
    for (SQLWarning w = statement.getWarnings(); w != null; w = w.getNextWarning()) say("warning", w.getMessage());
  }

  static void show(ResultSet rows) throws SQLException {
    columns(rows.getMetaData());
    while (rows.next()) row(rows);
    rows.close();
  }

  static void columns(ResultSetMetaData data) throws SQLException {
    String[] words = new String[data.getColumnCount() + 1];
    words[0] = "columns";
    for (int i = 1; i < words.length; i++) words[i] = data.getColumnLabel(i) + " " + data.getColumnTypeName(i);
    say(words);
  }

  static void row(ResultSet rows) throws SQLException {
    String[] words = new String[rows.getMetaData().getColumnCount() + 1];
    words[0] = "row";
    for (int i = 1; i < words.length; i++) words[i] = shown(rows.getObject(i));
    say(words);
  }

  static String shown(Object value) {
    return value == null ? null : value instanceof byte[] b ? HexFormat.of().formatHex(b) : value.toString();
  }

  static void failed(Throwable problem) {
    String state = problem instanceof SQLException e ? e.getSQLState() : problem.getClass().getName();
    var server = problem instanceof PSQLException e ? e.getServerErrorMessage() : null;
    say("error", state, server == null ? String.valueOf(problem.getMessage()) : server.getMessage(),
        server == null ? null : server.getHint(), server == null ? null : String.valueOf(server.getPosition()));
    if (problem instanceof SQLException e && e.getNextException() != null) failed(e.getNextException());
  }

  static void say(String... words) {
    OUT.println(String.join("\t", Arrays.stream(words).map(Jdbc::escaped).toArray(String[]::new)));
  }

  static String escaped(String word) {
    if (word == null) return "\\N";
    return word.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r");
  }

  static String unescaped(String word) {
    if (word.equals("\\N")) return null;
    var text = new StringBuilder();
    for (int i = 0; i < word.length(); i++) {
      char c = word.charAt(i);
      if (c == '\\') {
        c = word.charAt(++i);
        c = c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c;
      }
      text.append(c);
    }
    return text.toString();
  }
}
