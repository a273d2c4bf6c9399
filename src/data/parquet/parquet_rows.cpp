#include "data/parquet/parquet_rows.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/properties.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "accrue/core/error.h"
#include "core/open_file.h"
#include "data/parquet/table_columns.h"

namespace accrue::data {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 2> columns_of_text{"text", "completion"};

template <typename Names>
bool is_among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

ordered_json value_at(const arrow::Array& values, std::int64_t row);

/// Elements [begin, begin + count) as an array.
ordered_json list_of(const arrow::Array& elements, std::int64_t begin, std::int64_t count) {
  ordered_json list = ordered_json::array();
  for (std::int64_t i = begin; i < begin + count; ++i) list.push_back(value_at(elements, i));
  return list;
}

template <typename List>
ordered_json list_at(const arrow::Array& values, std::int64_t row) {
  const auto& lists = static_cast<const List&>(values);
  return list_of(*lists.values(), lists.value_offset(row), lists.value_length(row));
}

/// Fields without a value are left out: a table has each in every row, even if it was never set.
ordered_json object_at(const arrow::StructArray& objects, std::int64_t row) {
  ordered_json object = ordered_json::object();
  for (int field = 0; field < objects.num_fields(); ++field)
    if (const auto& values = *objects.field(field); !values.IsNull(row))
      object[objects.struct_type()->field(field)->name()] = value_at(values, row);
  return object;
}

template <typename Values>
ordered_json plain_at(const arrow::Array& values, std::int64_t row) {
  return static_cast<const Values&>(values).Value(row);
}

template <typename Texts>
ordered_json text_at(const arrow::Array& values, std::int64_t row) {
  return std::string(static_cast<const Texts&>(values).GetView(row));
}

ordered_json value_at(const arrow::Array& values, std::int64_t row) {
  if (values.IsNull(row)) return nullptr;
  switch (values.type_id()) {
    case arrow::Type::STRING:
      return text_at<arrow::StringArray>(values, row);
    case arrow::Type::LARGE_STRING:
      return text_at<arrow::LargeStringArray>(values, row);
    case arrow::Type::BINARY:
      return text_at<arrow::BinaryArray>(values, row);
    case arrow::Type::BOOL:
      return plain_at<arrow::BooleanArray>(values, row);
    case arrow::Type::INT8:
      return plain_at<arrow::Int8Array>(values, row);
    case arrow::Type::UINT8:
      return plain_at<arrow::UInt8Array>(values, row);
    case arrow::Type::INT16:
      return plain_at<arrow::Int16Array>(values, row);
    case arrow::Type::UINT16:
      return plain_at<arrow::UInt16Array>(values, row);
    case arrow::Type::INT32:
      return plain_at<arrow::Int32Array>(values, row);
    case arrow::Type::UINT32:
      return plain_at<arrow::UInt32Array>(values, row);
    case arrow::Type::INT64:
      return plain_at<arrow::Int64Array>(values, row);
    case arrow::Type::UINT64:
      return plain_at<arrow::UInt64Array>(values, row);
    case arrow::Type::FLOAT:
      return plain_at<arrow::FloatArray>(values, row);
    case arrow::Type::DOUBLE:
      return plain_at<arrow::DoubleArray>(values, row);
    case arrow::Type::LIST:
      return list_at<arrow::ListArray>(values, row);
    case arrow::Type::LARGE_LIST:
      return list_at<arrow::LargeListArray>(values, row);
    case arrow::Type::STRUCT:
      return object_at(static_cast<const arrow::StructArray&>(values), row);
    default:
      throw std::invalid_argument("a column of " + values.type()->ToString());
  }
}

/// Arrow's result, or an exception with its error message.
template <typename T>
T answer(arrow::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return std::move(result).ValueUnsafe();
}

void expect_ok(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

/// Without threads and read-ahead, whose memory grows with the row groups.
std::unique_ptr<parquet::arrow::FileReader> open_table(const std::filesystem::path& table) {
  constexpr std::int64_t rows_at_once = 256;
  parquet::ReaderProperties reading;
  reading.enable_buffered_stream();
  parquet::ArrowReaderProperties batches;
  batches.set_batch_size(rows_at_once);
  batches.set_pre_buffer(false);
  batches.set_use_threads(false);
  parquet::arrow::FileReaderBuilder builder;
  OpenedFile opened = open_to_read(table);
  if (!opened) throw std::runtime_error(opened.obstacle);
  expect_ok(builder.Open(answer(arrow::io::ReadableFile::Open(opened.file.release())), reading));
  return answer(builder.properties(batches)->Build());
}

/// Each name once: a column of lists or structs has several leaves.
std::vector<std::string> names_of_columns(const parquet::SchemaDescriptor& schema) {
  std::vector<std::string> names;
  for (int leaf = 0; leaf < schema.num_columns(); ++leaf)
    if (const std::string& name = schema.GetColumnRoot(leaf)->name(); !is_among(names, name))
      names.push_back(name);
  return names;
}

/// The result of `read`; exceptions of Arrow become an Error that names the table.
template <typename Read>
auto read_table(const std::filesystem::path& table, const std::string& what, const Read& read) {
  try {
    return read();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& problem) {
    throw usage_error(what, "a whole Parquet file", table.string() + ": " + problem.what(),
                      "the file as it was written, or its rows as JSON lines (.jsonl)");
  }
}

class RowsAsLines {
 public:
  RowsAsLines(const std::filesystem::path& table, const WriteBytes& write, const std::string& what)
      : table_(table), write_(write), what_(what) {}

  void write() {
    const auto reader = open_table(table_);
    const std::vector<int> columns =
        wanted_columns(*reader->parquet_reader()->metadata()->schema());
    std::vector<int> row_groups(static_cast<std::size_t>(reader->num_row_groups()));
    for (std::size_t i = 0; i < row_groups.size(); ++i) row_groups[i] = static_cast<int>(i);
    const auto batches = answer(reader->GetRecordBatchReader(row_groups, columns));
    expect_text(*batches->schema());
    while (const auto batch = answer(batches->Next()))
      for (std::int64_t row = 0; row < batch->num_rows(); ++row) write_row(*batch, row);
  }

 private:
  /// The leaves of the columns that lines need.
  std::vector<int> wanted_columns(const parquet::SchemaDescriptor& schema) const {
    const std::vector<std::string> names = names_of_columns(schema);
    const std::vector<std::string> read = columns_of_table(names).read;
    std::vector<int> wanted;
    for (int leaf = 0; leaf < schema.num_columns(); ++leaf)
      if (is_among(read, schema.GetColumnRoot(leaf)->name())) wanted.push_back(leaf);
    if (!wanted.empty()) return wanted;
    std::string found;
    for (const std::string& name : names) found += (found.empty() ? "" : ", ") + name;
    throw usage_error(what_, R"(a column "text", "prompt" and "completion", or "messages")",
                      table_.string() + ": " + (found.empty() ? "no columns" : found),
                      "renaming the column, or its text as JSON lines (.jsonl)");
  }

  void expect_text(const arrow::Schema& schema) const {
    for (const auto& field : schema.fields())
      if (is_among(columns_of_text, field->name()) && !is_text(*field->type()) &&
          !is_answer(*field))
        throw usage_error(what_, "text in the column \"" + field->name() + "\"",
                          table_.string() + ": " + field->type()->ToString(), "another column");
  }

  /// A completion may be a list of messages.
  static bool is_answer(const arrow::Field& field) {
    const arrow::Type::type type = field.type()->id();
    return field.name() == "completion" &&
           (type == arrow::Type::LIST || type == arrow::Type::LARGE_LIST);
  }

  static bool is_text(const arrow::DataType& type) {
    return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING ||
           type.id() == arrow::Type::BINARY;
  }

  void write_row(const arrow::RecordBatch& batch, std::int64_t row) {
    ++row_;
    ordered_json line = ordered_json::object();
    for (int column = 0; column < batch.num_columns(); ++column) {
      const std::string& name = batch.schema()->field(column)->name();
      if (!batch.column(column)->IsNull(row))
        line[name] = value_at(*batch.column(column), row);
      else if (!may_have_gaps(name))
        throw usage_error(what_, "a value in each row",
                          place_of_row() + ": none in \"" + name + "\"",
                          "a table without such rows");
    }
    try {
      write_(line.dump() + "\n");
    } catch (const ordered_json::type_error&) {
      throw usage_error(what_, "UTF-8", place_of_row() + ": other bytes", "the text as UTF-8");
    }
  }

  std::string place_of_row() const { return table_.string() + ", row " + std::to_string(row_); }

  const std::filesystem::path& table_;
  const WriteBytes& write_;
  const std::string& what_;
  std::int64_t row_ = 0;  ///< from 1
};

}  // namespace

void write_rows_as_lines(const std::filesystem::path& table, const WriteBytes& write,
                         const std::string& what) {
  read_table(table, what, [&] { RowsAsLines(table, write, what).write(); });
}

std::vector<std::string> unread_columns(const std::filesystem::path& table,
                                        const std::string& what) {
  return read_table(table, what, [&] {
    const auto reader = open_table(table);
    return columns_of_table(names_of_columns(*reader->parquet_reader()->metadata()->schema()))
        .unread;
  });
}

}  // namespace accrue::data
