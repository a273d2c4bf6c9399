#include <ATen/ATen.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/data/own_source.h"
#include "data/own_rows.h"
#include "data/source_errors.h"

namespace accrue::data {
namespace {

constexpr const char* kStream = "a stream of the program's own samples";

/// Samples that were read at once.
struct StreamPart {
  std::int64_t begin = 0;
  batch::MicroBatch rows;
  std::int64_t end() const { return begin + rows.inputs.size(0); }
};

/// Throws a usage Error if JoinedRows cannot join `rows`.
void require_joinable(const batch::MicroBatch& rows) {
  const auto refuse = [](const char* received) {
    throw usage_error(kStream, "rows of inputs, targets, weights and columns", received,
                      "columns, or data::own_source, which nothing has to be put together for");
  };
  if (rows.own.is_there()) refuse("a batch of the program's own type");
  if (!rows.spans.empty()) refuse("rows that several sequences share (spans)");
  if (rows.reference.defined()) refuse("a reference's log-probabilities");
  if (rows.sequences_per_sample != 1) refuse("samples of several sequences");
}

/// Rows [from, to) of parts, joined tensor by tensor.
class JoinedRows {
 public:
  void add(const batch::MicroBatch& rows, std::int64_t from, std::int64_t to) {
    add(inputs_, rows.inputs, from, to);
    add(targets_, rows.targets, from, to);
    add(weights_, rows.weights, from, to);
    for (const auto& [name, column] : rows.columns) add(columns_[name], column, from, to);
  }
  batch::MicroBatch take() const {
    batch::MicroBatch made{
        .inputs = joined(inputs_), .targets = joined(targets_), .weights = joined(weights_)};
    for (const auto& [name, parts] : columns_) made.columns.emplace(name, joined(parts));
    return made;
  }

 private:
  using Parts = std::vector<at::Tensor>;
  static void add(Parts& parts, const at::Tensor& tensor, std::int64_t from, std::int64_t to) {
    if (tensor.defined()) parts.push_back(tensor.slice(0, from, to));
  }
  static at::Tensor joined(const Parts& parts) {
    return parts.empty() ? at::Tensor() : at::cat(parts);
  }

  Parts inputs_, targets_, weights_;
  std::map<std::string, Parts> columns_;
};

/// The stream as far as it was read, with its last samples. Not thread-safe.
class KeptStream {
 public:
  explicit KeptStream(const StreamSamples& samples) : samples_(samples) {}

  /// Samples `indices`; reads on for them, or from the start if they have been dropped.
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) {
    JoinedRows rows;
    for (std::size_t i = 0; i < indices.size();) {
      const StreamPart& part = part_of(indices[i], indices);
      const std::size_t first = i;
      do ++i;
      while (i < indices.size() && indices[i] == indices[i - 1] + 1 && indices[i] < part.end());
      const std::int64_t from = indices[first] - part.begin;
      rows.add(part.rows, from, from + static_cast<std::int64_t>(i - first));
    }
    return rows.take();
  }

 private:
  /// `wanted` must not be dropped meanwhile.
  const StreamPart& part_of(std::int64_t index, std::span<const std::int64_t> wanted) {
    if (!next_ || parts_.empty() || index < parts_.front().begin) begin_at(index);
    while (index >= read_) read_on(*std::ranges::min_element(wanted));
    return *std::ranges::find_if(parts_, [&](const StreamPart& p) { return index < p.end(); });
  }

  void begin_at(std::int64_t position) {
    parts_.clear();
    next_ = samples_.open(position);
    if (!next_)
      throw usage_error(kStream, "a function that gives the next samples", "none",
                        "StreamSamples::open returning one");
    read_ = position;
  }

  void read_on(std::int64_t oldest_wanted) {
    constexpr std::int64_t at_once = 64;
    const std::int64_t count = std::min({at_once, samples_.keep, samples_.size - read_});
    batch::MicroBatch rows = next_(count);
    if (!has_rows(rows)) {
      forget();
      throw usage_error(kStream, std::to_string(samples_.size) + " samples, as stated",
                        "an end after " + std::to_string(std::exchange(read_, 0)),
                        "StreamSamples::size as many as there are");
    }
    check_rows(rows, rows.inputs.size(0));
    require_joinable(rows);
    require_at_most(count, rows.inputs.size(0));
    parts_.push_back({read_, std::move(rows)});
    read_ = parts_.back().end();
    const std::int64_t keep_from = std::min(read_ - samples_.keep, oldest_wanted);
    while (parts_.front().end() <= keep_from) parts_.pop_front();
    if (read_ == samples_.size) require_end();
  }

  void require_end() {
    if (!has_rows(next_(1))) return;
    forget();
    throw usage_error(kStream, std::to_string(samples_.size) + " samples, as stated",
                      "more behind them", "StreamSamples::size as many as there are");
  }

  void require_at_most(std::int64_t count, std::int64_t rows) {
    if (rows <= count) return;
    forget();
    throw usage_error(kStream, "at most " + std::to_string(count) + " samples at once",
                      std::to_string(rows), "giving no more than are asked for");
  }

  /// After a failure the next request starts the stream again.
  void forget() {
    next_ = nullptr;
    parts_.clear();
  }

  static bool has_rows(const batch::MicroBatch& rows) {
    return rows.inputs.defined() && rows.inputs.dim() > 0 && rows.inputs.size(0) > 0;
  }

  const StreamSamples& samples_;
  StreamSamples::Next next_;
  std::deque<StreamPart> parts_;
  std::int64_t read_ = 0;  ///< samples that the stream has returned or skipped
};

class Stream final : public Source {
 public:
  explicit Stream(StreamSamples samples) : samples_(std::move(samples)), kept_(samples_) {
    const auto require = [](bool holds, const char* expected, const std::string& received,
                            const char* suggestion) {
      if (!holds) throw usage_error(kStream, expected, received, suggestion);
    };
    require(samples_.size > 0, "a number of samples above 0", std::to_string(samples_.size),
            "StreamSamples::size");
    require(samples_.open && !samples_.identity.empty(),
            "a function that begins it, and what identifies it",
            samples_.open ? "no identity" : "no function",
            "StreamSamples::open and StreamSamples::identity");
    require(samples_.tokens > 0, "at least one token in a sample", std::to_string(samples_.tokens),
            "StreamSamples::tokens = 1 if there are none");
    require(samples_.keep > 0, "a number of samples to keep above 0", std::to_string(samples_.keep),
            "StreamSamples::keep = twice the samples of a batch");
  }

  std::int64_t size() const override { return samples_.size; }
  std::int64_t vocab() const override { return samples_.vocab; }
  bool reads_in_order() const override { return true; }
  std::int64_t tokens(std::int64_t index) const override {
    require_index(index, size());
    return samples_.tokens;
  }
  std::optional<std::int64_t> uniform_tokens() const override { return samples_.tokens; }
  std::string fingerprint() const override {
    return "stream: " + std::to_string(samples_.size) + " samples, " + samples_.identity;
  }

  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    for (const std::int64_t index : indices) require_index(index, size());
    const std::lock_guard<std::mutex> lock(mutex_);
    batch::MicroBatch made = kept_.fetch(indices);
    check_rows(made, std::ssize(indices));
    made.tokens = static_cast<std::int64_t>(indices.size()) * samples_.tokens;
    return made;
  }

 private:
  StreamSamples samples_;
  mutable std::mutex mutex_;  ///< the loader reads ahead while a replay requests samples again
  mutable KeptStream kept_;
};

}  // namespace

std::shared_ptr<const Source> stream_source(StreamSamples samples) {
  return std::make_shared<Stream>(std::move(samples));
}

}  // namespace accrue::data
