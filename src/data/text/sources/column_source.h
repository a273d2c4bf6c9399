#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "accrue/data/source.h"
#include "data/files/file_pool.h"
#include "data/files/fingerprint.h"
#include "data/text/samples/column_line.h"
#include "data/text/tokens/text_cache.h"

namespace accrue::data {

struct ColumnOptions {
  std::vector<std::string> columns;                  ///< the fields; the first one is `inputs`
  std::int64_t context = 0;                          ///< the most elements of the first one's list
  std::shared_ptr<const TextCache> lines = nullptr;  ///< owns the lines' files; may be null
  TellProgress tell_progress = {};
};

/// Lines of JSON whose fields become tensors by name (SourceOptions::columns). One pass at opening
/// reads and checks every line; 16 bytes of each stay in memory, and fetch parses the requested
/// lines.
class ColumnSource final : public Source {
 public:
  /// Throws a usage Error of the operation `what` if a line lacks a field, a field is neither a
  /// number nor a list of numbers, shapes differ, a list is longer than the context, or there is no
  /// line.
  ColumnSource(std::unique_ptr<const FilePool> files, const ColumnOptions& options,
               const std::string& what);

  std::int64_t size() const override { return static_cast<std::int64_t>(lines_.size()); }
  std::int64_t vocab() const override { return 0; }
  std::int64_t tokens(std::int64_t index) const override;
  std::optional<std::int64_t> uniform_tokens() const override;
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override;
  std::vector<std::string> remarks() const override {
    return options_.lines ? options_.lines->remarks() : std::vector<std::string>{};
  }
  std::string fingerprint() const override { return fingerprint_.text(); }

  /// Makes tensors of the types and shapes of `known`, the source of the training samples: integers
  /// become fp32 if they are there. Throws a usage Error of the operation `what` if these samples
  /// have other shapes, fractions where those have integers, or an attention mask while those have
  /// none or the reverse.
  void take_types_of(const ColumnSource& known, const std::string& what);
  std::vector<DataFile> files() const override { return fingerprint_.files(); }

 private:
  /// The properties of a column in all lines.
  struct Column {
    std::string name;
    std::vector<std::int64_t> inner;  ///< the shape of a list's elements
    bool is_list = false, is_real = false;
    bool is_made = false;  ///< "attention_mask", which is in no line
  };
  struct IndexedLine {
    std::int64_t begin = 0;
    std::int32_t bytes = 0, tokens = 0;
  };

  void index(const std::string& what, const TellProgress& tell);
  void add(const std::vector<ColumnValue>& values, const std::string& place,
           const std::string& what);
  void take_shapes(const std::vector<ColumnValue>& values);
  std::size_t file_of(std::int64_t index) const;
  std::vector<ColumnValue> read(std::int64_t index) const;
  at::Tensor tensor_of(std::size_t column,
                       const std::vector<std::vector<ColumnValue>>& samples) const;
  at::Tensor lengths_of(std::size_t column,
                        const std::vector<std::vector<ColumnValue>>& samples) const;
  at::Tensor mask_of(const std::vector<std::vector<ColumnValue>>& samples) const;

  std::unique_ptr<const FilePool> files_;
  ColumnOptions options_;
  std::vector<Column> columns_;
  std::vector<IndexedLine> lines_;
  std::vector<std::int64_t> ends_;  ///< of each file, in samples
  Fingerprint fingerprint_;
};

/// ColumnSource::take_types_of() if both are lines as tensors; else does nothing.
void take_column_types(const Source& known, Source& source, const std::string& what);

}  // namespace accrue::data
