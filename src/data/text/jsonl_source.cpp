#include "data/text/jsonl_source.h"

#include <algorithm>
#include <utility>

#include "data/source_errors.h"
#include "data/text/byte_vocab.h"
#include "data/text/line_reader.h"
#include "data/text/sequence_batch.h"

namespace accrue::data {
namespace {

std::string place(const FilePool& files, std::size_t file, std::int64_t line) {
  return files.path(file).string() + ":" + std::to_string(line);
}

/// Inputs are all tokens but the last, which is only predicted.
Sequence sequence_of(const JsonSample& sample) {
  return {.inputs = {sample.tokens.begin(), sample.tokens.end() - 1},
          .targets = {sample.labels.begin() + 1, sample.labels.end()},
          .weight = sample.weight};
}

}  // namespace

JsonlSource::JsonlSource(std::unique_ptr<const FilePool> files, const JsonlOptions& options,
                         const std::string& what)
    : files_(std::move(files)),
      options_(options),
      fingerprint_(options.packing ? "jsonl, packed" : "jsonl", *files_) {
  JsonSampleParser parser(options_.vocab_bound);
  TooLong too_long;
  for (std::size_t file = 0; file < files_->count(); ++file) {
    index_file(file, parser, too_long, what);
    sample_ends_.push_back(size());
  }
  require_samples(too_long, what);
  begins_.shrink_to_fit();
  lengths_.shrink_to_fit();
}

void JsonlSource::index_file(std::size_t file, JsonSampleParser& parser, TooLong& too_long,
                             const std::string& what) {
  LineReader lines(*files_, file, what);
  while (const auto line = lines.next()) {
    if (const auto problem = parser.parse(line->text)) {
      throw usage_error(what, problem->expected,
                        place(*files_, file, line->number) + ": " + problem->received,
                        problem->suggestion);
    }
    const JsonSample& sample = parser.sample();
    has_ids_ = has_ids_ || sample.has_ids;
    has_text_ = has_text_ || !sample.has_ids;
    if (sample.length() < 1) {
      ++too_short_;
      continue;
    }
    if (sample.length() > options_.context) {
      ++too_long.samples;
      if (sample.length() > too_long.longest) {
        too_long.longest = sample.length();
        too_long.where = place(*files_, file, line->number);
      }
      continue;
    }
    has_counting_label_ = has_counting_label_ || sample.counts();
    begins_.push_back(line->begin);
    lengths_.push_back(static_cast<std::int32_t>(sample.length()));
  }
}

void JsonlSource::require_samples(const TooLong& too_long, const std::string& what) const {
  const std::string first = files_->path(0).string();
  if (too_long.samples > 0) {
    throw usage_error(
        what,
        "samples of at most " + std::to_string(options_.context + 1) + " tokens (a context of " +
            std::to_string(options_.context) + " and one more to predict)",
        std::to_string(too_long.samples) + " longer, the longest of " +
            std::to_string(too_long.longest + 1) + " at " + too_long.where,
        "model.context = " + std::to_string(too_long.longest) + ", or cutting the samples");
  }
  if (begins_.empty()) {
    throw usage_error(
        what, "samples of at least two tokens",
        "none in " + std::to_string(files_->count()) + " file(s), the first being " + first,
        "more data");
  }
  if (!has_counting_label_) {
    throw usage_error(what, "labels that count",
                      "none in " + std::to_string(size()) + " samples, the first in " + first +
                          ": all are -100 or have weight 0",
                      "labels that are not all masked, and weights above 0");
  }
}

std::int64_t JsonlSource::vocab() const { return has_ids_ ? 0 : byte_vocab; }

std::int64_t JsonlSource::tokens(std::int64_t index) const {
  require_index(index, size());
  return lengths_[static_cast<std::size_t>(index)];
}

std::vector<std::string> JsonlSource::remarks() const {
  if (too_short_ == 0) return {};
  return {std::to_string(too_short_) + " line(s) of fewer than two tokens are left out"};
}

batch::MicroBatch JsonlSource::fetch(std::span<const std::int64_t> indices) const {
  JsonSampleParser parser(options_.vocab_bound);
  std::string buffer;
  std::vector<Sequence> sequences;
  std::vector<std::int64_t> lengths;
  for (const std::int64_t index : indices) {
    require_index(index, size());
    require_unchanged(index, parser, parser.parse(read_line(index, buffer)));
    sequences.push_back(sequence_of(parser.sample()));
    lengths.push_back(parser.sample().length());
  }
  const auto spans = options_.packing ? first_fit(lengths, options_.context) : one_a_row(lengths);
  batch::MicroBatch micro = make_micro_batch(sequences, spans);
  if (options_.packing) micro.spans = spans;
  return micro;
}

std::size_t JsonlSource::file_of(std::int64_t index) const {
  return static_cast<std::size_t>(
      std::upper_bound(sample_ends_.begin(), sample_ends_.end(), index) - sample_ends_.begin());
}

// The line is read by pieces until it ends: what stands between it and the next sample (blank
// lines, too short ones) can be as long as the file.
std::string_view JsonlSource::read_line(std::int64_t index, std::string& buffer) const {
  constexpr std::int64_t beside_tokens = 256;  // bytes that a short object takes besides
  const std::size_t file = file_of(index);
  const std::int64_t begin = begins_[static_cast<std::size_t>(index)];
  buffer.clear();
  while (true) {
    const std::int64_t known = std::ssize(buffer), left = files_->bytes(file) - begin - known;
    const std::int64_t piece = std::min(left, std::max(known, tokens(index) + beside_tokens));
    if (piece <= 0) return buffer;
    buffer.resize(static_cast<std::size_t>(known + piece));
    files_->read(
        file, begin + known,
        std::as_writable_bytes(std::span(buffer)).subspan(static_cast<std::size_t>(known)));
    const std::size_t feed = buffer.find('\n', static_cast<std::size_t>(known));
    if (feed != std::string::npos) return std::string_view(buffer).substr(0, feed);
    if (known > LineReader::longest_bytes) return buffer;  // too long now: the file has changed
  }
}

void JsonlSource::require_unchanged(std::int64_t index, const JsonSampleParser& parser,
                                    const std::optional<LineProblem>& problem) const {
  if (!problem && parser.sample().length() == tokens(index)) return;
  const std::size_t file = file_of(index);
  const std::int64_t begin = begins_[static_cast<std::size_t>(index)];
  throw runtime_error("read " + place(*files_, file, line_number_at(*files_, file, begin)),
                      "the sample that was there when the file was opened", "another line",
                      "restoring the file, then resuming the run");
}

}  // namespace accrue::data
