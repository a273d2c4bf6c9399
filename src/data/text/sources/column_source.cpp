#include "data/text/sources/column_source.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "accrue/batch/column_length.h"
#include "accrue/core/error.h"
#include "core/words.h"
#include "data/sequence_batch.h"
#include "data/source_errors.h"
#include "data/text/sources/line_reader.h"
#include "data/text/sources/sample_index.h"

namespace accrue::data {
namespace {

constexpr const char* mask_name = "attention_mask";

std::string kind_of(const ColumnOptions& options) {
  return "columns " + listed(options.columns, "and");
}

bool is_of_targets(const std::string& name) {
  return name.ends_with("labels") || name.ends_with("targets");
}

std::vector<std::int64_t> inner_of(const ColumnValue& value) {
  return {value.shape.begin() + (value.shape.empty() ? 0 : 1), value.shape.end()};
}

std::int64_t longest_of(std::size_t column, const std::vector<std::vector<ColumnValue>>& samples) {
  std::int64_t longest = 0;
  for (const auto& sample : samples) longest = std::max(longest, sample[column].length());
  return longest;
}

}  // namespace

ColumnSource::ColumnSource(std::unique_ptr<const FilePool> files, const ColumnOptions& options,
                           const std::string& what)
    : files_(std::move(files)), options_(options), fingerprint_(kind_of(options), *files_) {
  for (const std::string& name : options_.columns) columns_.push_back({.name = name, .inner = {}});
  index(what, options_.tell_progress);
}

void ColumnSource::index(const std::string& what, const TellProgress& tell) {
  std::int64_t all = 0, before = 0;
  for (std::size_t file = 0; file < files_->count(); ++file) all += files_->bytes(file);
  std::vector<ColumnValue> values;
  for (std::size_t file = 0; file < files_->count(); before += files_->bytes(file++)) {
    LineReader reader(*files_, file, what);
    while (const auto line = reader.next()) {
      const std::string place = place_of_line(*files_, file, line->number);
      if (const auto problem = parse_columns(line->text, options_.columns, values))
        throw usage_error(what, problem->expected, place + ": " + problem->received,
                          problem->suggestion);
      add(values, place, what);
      lines_.push_back({line->begin, static_cast<std::int32_t>(line->text.size()),
                        static_cast<std::int32_t>(values.front().length())});
      if (tell && lines_.size() % 4096 == 0) tell(before + line->begin, all);
    }
    ends_.push_back(size());
  }
  if (tell) tell(all, all);
  if (lines_.empty())
    throw usage_error(what, "a line of JSON for each sample", "none",
                      "lines like {\"" + options_.columns.front() + "\": [1, 2, 3]}");
}

/// The first line defines the types and shapes of the others.
void ColumnSource::take_shapes(const std::vector<ColumnValue>& values) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    columns_[i].is_made = !values[i].is_there && columns_[i].name == mask_name && i > 0;
    columns_[i].is_list = !values[i].shape.empty();
    columns_[i].inner = inner_of(values[i]);
  }
}

void ColumnSource::add(const std::vector<ColumnValue>& values, const std::string& place,
                       const std::string& what) {
  if (lines_.empty()) take_shapes(values);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    const auto refuse = [&](const std::string& expected, const std::string& received) {
      throw usage_error(what, expected, place + ": " + received,
                        "lines that have all of data.columns, each of one shape");
    };
    if (values[i].is_there == column.is_made)
      refuse(column.is_made ? "no \"" + column.name + "\", as the first line has none"
                            : "a field \"" + column.name + '"',
             column.is_made ? "one" : "none");
    if (column.is_made) continue;
    if (column.is_list == values[i].shape.empty() || column.inner != inner_of(values[i]))
      refuse("\"" + column.name + "\" of the shape that the first line has", "another shape");
    column.is_real = column.is_real || values[i].is_real;
  }
  const std::int64_t length = values.front().length();
  if (!columns_.front().is_list || length <= options_.context) return;
  throw usage_error(what, "samples of at most " + std::to_string(options_.context) + " tokens",
                    place + ": " + std::to_string(length) + " in \"" + columns_.front().name + '"',
                    "model.context = " + std::to_string(length) + ", or cutting the samples");
}

void ColumnSource::take_types_of(const ColumnSource& known, const std::string& what) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Column& own = columns_[i];
    const Column& theirs = known.columns_.at(i);
    const bool is_alike = own.is_made == theirs.is_made && own.is_list == theirs.is_list &&
                          own.inner == theirs.inner && (theirs.is_real || !own.is_real);
    if (!is_alike)
      throw usage_error(what, "columns as the training data have them",
                        "another \"" + own.name +
                            "\": of another shape, with fractions where "
                            "those are whole, or there where those have none",
                        "lines of the same form in data.train and data.val");
    own.is_real = theirs.is_real;
  }
}

void take_column_types(const Source& known, Source& source, const std::string& what) {
  const auto* of_known = dynamic_cast<const ColumnSource*>(&known);
  auto* of_source = dynamic_cast<ColumnSource*>(&source);
  if (of_known != nullptr && of_source != nullptr) of_source->take_types_of(*of_known, what);
}

std::int64_t ColumnSource::tokens(std::int64_t index) const {
  require_index(index, size());
  return lines_[static_cast<std::size_t>(index)].tokens;
}

std::optional<std::int64_t> ColumnSource::uniform_tokens() const {
  return columns_.front().is_list ? std::nullopt : std::optional<std::int64_t>(1);
}

std::size_t ColumnSource::file_of(std::int64_t index) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
}

std::vector<ColumnValue> ColumnSource::read(std::int64_t index) const {
  require_index(index, size());
  const IndexedLine& line = lines_[static_cast<std::size_t>(index)];
  const std::size_t file = file_of(index);
  std::string text(static_cast<std::size_t>(line.bytes), '\0');
  files_->read(file, line.begin, std::as_writable_bytes(std::span(text)));
  std::vector<ColumnValue> values;
  const bool is_read = !parse_columns(text, options_.columns, values);
  const auto is_as_before = [&](std::size_t i) {
    const Column& column = columns_[i];
    return values[i].is_there != column.is_made &&
           (column.is_made ||
            (column.is_list != values[i].shape.empty() && column.inner == inner_of(values[i]) &&
             (column.is_real || !values[i].is_real)));
  };
  bool unchanged = is_read && values.front().length() == line.tokens;
  for (std::size_t i = 0; unchanged && i < columns_.size(); ++i) unchanged = is_as_before(i);
  if (unchanged) return values;
  throw changed_line(*files_, file, line.begin);
}

at::Tensor ColumnSource::tensor_of(std::size_t column,
                                   const std::vector<std::vector<ColumnValue>>& samples) const {
  const Column& of = columns_[column];
  std::vector<std::int64_t> shape{std::ssize(samples)};
  if (of.is_list) shape.push_back(longest_of(column, samples));
  shape.insert(shape.end(), of.inner.begin(), of.inner.end());
  const bool is_label = is_of_targets(of.name) && !of.is_real;
  at::Tensor tensor = at::full(shape, is_label ? ignored_target : 0, at::kDouble);
  double* row = tensor.mutable_data_ptr<double>();
  const std::int64_t stride = samples.empty() ? 0 : tensor.numel() / std::ssize(samples);
  for (const auto& sample : samples) {
    std::ranges::copy(sample[column].numbers, row);
    row += stride;
  }
  return tensor.to(of.is_real ? at::kFloat : at::kLong);
}

at::Tensor ColumnSource::lengths_of(std::size_t column,
                                    const std::vector<std::vector<ColumnValue>>& samples) const {
  std::vector<std::int64_t> lengths;
  for (const auto& sample : samples) lengths.push_back(sample[column].length());
  return at::tensor(lengths, at::kLong);
}

at::Tensor ColumnSource::mask_of(const std::vector<std::vector<ColumnValue>>& samples) const {
  at::Tensor mask = at::zeros({std::ssize(samples), longest_of(0, samples)}, at::kLong);
  for (std::size_t i = 0; i < samples.size(); ++i)
    mask[static_cast<std::int64_t>(i)].narrow(0, 0, samples[i].front().length()).fill_(1);
  return mask;
}

batch::MicroBatch ColumnSource::fetch(std::span<const std::int64_t> indices) const {
  std::vector<std::vector<ColumnValue>> samples;
  batch::MicroBatch micro;
  for (const std::int64_t index : indices) {
    samples.push_back(read(index));
    micro.tokens += samples.back().front().length();
  }
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    micro.columns[column.name] = column.is_made ? mask_of(samples) : tensor_of(i, samples);
    if (column.is_list && !column.is_made)
      micro.columns[batch::length_column(column.name)] = lengths_of(i, samples);
  }
  micro.inputs = micro.columns.at(columns_.front().name);
  for (const char* name : {"targets", "labels"}) {
    const auto column = micro.columns.find(name);
    if (column != micro.columns.end() && column->second.scalar_type() == at::kLong)
      micro.targets = column->second;
  }
  return micro;
}

}  // namespace accrue::data
