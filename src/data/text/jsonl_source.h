#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/data/source.h"
#include "data/files/file_pool.h"
#include "data/files/fingerprint.h"
#include "data/text/json_sample.h"

namespace accrue::data {

struct JsonlOptions {
  std::int64_t context = 0;      ///< the most inputs of a sample, and of a row
  std::int64_t vocab_bound = 0;  ///< ids must be below; 0: not checked
  bool packing = false;
};

/// Samples of different lengths, a line each. One pass at opening reads and checks every line; 12
/// bytes of each stay in memory, and fetch parses the lines it is asked for.
class JsonlSource final : public Source {
 public:
  /// Throws a usage Error, its operation being `what`, where a line is no sample or longer than the
  /// context, and where there is no sample or no label counts.
  JsonlSource(std::unique_ptr<const FilePool> files, const JsonlOptions& options,
              const std::string& what);

  std::int64_t size() const override { return std::ssize(begins_); }
  std::int64_t vocab() const override;
  bool has_text() const override { return has_text_; }
  std::int64_t tokens(std::int64_t index) const override;
  std::optional<std::int64_t> uniform_tokens() const override { return std::nullopt; }
  std::vector<std::string> remarks() const override;
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override;
  std::string fingerprint() const override { return fingerprint_.text(); }
  std::vector<DataFile> files() const override { return fingerprint_.files(); }

 private:
  struct TooLong {
    std::int64_t samples = 0;
    std::int64_t longest = 0;  ///< tokens
    std::string where;
  };

  void index_file(std::size_t file, JsonSampleParser& parser, TooLong& too_long,
                  const std::string& what);
  void require_samples(const TooLong& too_long, const std::string& what) const;
  std::size_t file_of(std::int64_t index) const;
  std::string_view read_line(std::int64_t index, std::string& buffer) const;
  void require_unchanged(std::int64_t index, const JsonSampleParser& parser,
                         const std::optional<LineProblem>& problem) const;

  std::unique_ptr<const FilePool> files_;
  JsonlOptions options_;
  std::vector<std::int64_t> begins_;       ///< where sample i's line begins in its file
  std::vector<std::int32_t> lengths_;      ///< sample i's input tokens
  std::vector<std::int64_t> sample_ends_;  ///< how many samples there are up to and with file i
  std::int64_t too_short_ = 0;             ///< lines of fewer than two tokens
  bool has_ids_ = false;
  bool has_text_ = false;
  bool has_counting_label_ = false;
  Fingerprint fingerprint_;
};

}  // namespace accrue::data
