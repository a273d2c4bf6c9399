#include <algorithm>
#include <cmath>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/data/source.h"
#include "data/fetch.h"
#include "data/sequence_batch.h"
#include "data/source_errors.h"

namespace accrue::data {
namespace {

/// "3", "0.25": a weight as it was stated.
std::string weight_in_words(double weight) {
  std::string text = std::to_string(weight);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

/// The sequence of a micro-batch at `span`.
Sequence sequence_at(const batch::MicroBatch& micro, const SampleSpan& span) {
  const std::int64_t row = span.row * micro.inputs.size(1);
  const std::int64_t begin = row + span.begin, end = row + span.end;
  const auto* inputs = micro.inputs.const_data_ptr<std::int64_t>();
  const auto* targets = micro.targets.const_data_ptr<std::int64_t>();
  Sequence sequence{.inputs = {inputs + begin, inputs + end},
                    .targets = {targets + begin, targets + end}};
  if (micro.weights.defined()) sequence.weight = micro.weights.const_data_ptr<float>()[begin];
  return sequence;
}

/// The spans of the sequences of `micro`, which are samples `indices` of `source`.
std::vector<SampleSpan> spans_of(const batch::MicroBatch& micro, const Source& source,
                                 std::span<const std::int64_t> indices) {
  if (!micro.spans.empty()) return micro.spans;
  if (micro.sequences_per_sample > 1)
    throw usage_error("mix sources", "pairs with spans", "pairs without",
                      "SourceOptions::packing for them");
  std::vector<std::int64_t> lengths;
  for (const std::int64_t index : indices) lengths.push_back(source.tokens(index));
  return one_a_row(lengths);
}

class Mixture final : public Source {
 public:
  Mixture(std::vector<MixturePart> parts, const MixtureOptions& options)
      : parts_(std::move(parts)), options_(options) {
    std::int64_t end = 0;
    for (const MixturePart& part : parts_) ends_.push_back(end += part.source->size());
  }

  std::int64_t size() const override { return ends_.back(); }
  std::int64_t vocab() const override {
    std::int64_t most = 0;
    for (const MixturePart& part : parts_) {
      if (part.source->vocab() == 0) return 0;
      most = std::max(most, part.source->vocab());
    }
    return most;
  }
  bool has_text() const override {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const MixturePart& part) { return part.source->has_text(); });
  }
  bool has_conversations() const override {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const MixturePart& part) { return part.source->has_conversations(); });
  }
  std::shared_ptr<const Tokenizer> tokenizer() const override {
    for (const MixturePart& part : parts_)
      if (auto tokenizer = part.source->tokenizer()) return tokenizer;
    return nullptr;
  }
  std::int64_t tokens(std::int64_t index) const override {
    const Place place = place_of(index);
    return parts_[place.part].source->tokens(place.index);
  }
  std::optional<std::int64_t> uniform_tokens() const override {
    const auto first = parts_.front().source->uniform_tokens();
    for (const MixturePart& part : parts_)
      if (part.source->uniform_tokens() != first) return std::nullopt;
    return first;
  }
  std::vector<MixturePart> parts() const override { return parts_; }
  std::vector<std::string> remarks() const override {
    std::vector<std::string> remarks;
    for (const MixturePart& part : parts_)
      for (const std::string& remark : part.source->remarks())
        remarks.push_back(part.name + ": " + remark);
    return remarks;
  }
  void check_contents() const override {
    for (const MixturePart& part : parts_) part.source->check_contents();
  }
  std::string fingerprint() const override;
  std::vector<DataFile> files() const override {
    std::vector<DataFile> files;
    for (const MixturePart& part : parts_)
      for (DataFile& file : part.source->files()) files.push_back(std::move(file));
    return files;
  }
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override;

 private:
  struct Place {
    std::size_t part = 0;
    std::int64_t index = 0;  ///< in the part
  };
  /// The samples of one part that a micro-batch needs.
  struct Wanted {
    std::vector<std::int64_t> indices;  ///< in the part
    std::vector<std::size_t> places;    ///< in the micro-batch
  };
  /// The sequences of one sample: two for a pair.
  using Sample = std::vector<Sequence>;

  Place place_of(std::int64_t index) const;
  void take(const Source& part, const Wanted& wanted, std::vector<Sample>& samples) const;

  std::vector<MixturePart> parts_;
  MixtureOptions options_;
  std::vector<std::int64_t> ends_;  ///< samples up to and including part i
};

Mixture::Place Mixture::place_of(std::int64_t index) const {
  require_index(index, size());
  const auto part =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  return {part, index - (ends_[part] - parts_[part].source->size())};
}

// The kind stands before the first colon, with the tokenizer as in other fingerprints.
std::string Mixture::fingerprint() const {
  std::string kind = "mixture", of_parts;
  if (options_.packing) kind += ", packed";
  if (const auto own = tokenizer()) kind += ", tokenizer " + own->fingerprint();
  for (const MixturePart& part : parts_)
    of_parts += (of_parts.empty() ? "" : "; ") + weight_in_words(part.weight) + " of (" +
                part.source->fingerprint() + ")";
  return kind + ": " + of_parts;
}

void Mixture::take(const Source& part, const Wanted& wanted, std::vector<Sample>& samples) const {
  const batch::MicroBatch micro = part.fetch(wanted.indices);
  const std::vector<SampleSpan> spans = spans_of(micro, part, wanted.indices);
  auto span = spans.begin();
  for (const std::size_t place : wanted.places)
    for (std::int64_t i = 0; i < micro.sequences_per_sample; ++i)
      samples[place].push_back(sequence_at(micro, *span++));
}

batch::MicroBatch Mixture::fetch(std::span<const std::int64_t> indices) const {
  std::vector<Wanted> wanted(parts_.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Place place = place_of(indices[i]);
    wanted[place.part].indices.push_back(place.index);
    wanted[place.part].places.push_back(i);
  }
  std::vector<Sample> samples(indices.size());
  for (std::size_t part = 0; part < parts_.size(); ++part)
    if (!wanted[part].indices.empty()) take(*parts_[part].source, wanted[part], samples);
  std::vector<Sequence> sequences;
  std::vector<std::int64_t> lengths;
  for (Sample& sample : samples) {
    for (Sequence& sequence : sample) {
      lengths.push_back(std::ssize(sequence.inputs));
      sequences.push_back(std::move(sequence));
    }
  }
  const auto spans = options_.packing ? first_fit(lengths, options_.context) : one_a_row(lengths);
  batch::MicroBatch micro = make_micro_batch(sequences, spans);
  if (options_.packing) micro.spans = spans;
  if (!samples.empty()) micro.sequences_per_sample = std::ssize(samples.front());
  return micro;
}

void require_mixable(const MixturePart& part, const std::string& what) {
  if (part.source->image_shape())
    throw usage_error(what, "text, tokens or JSON lines where sources have weights",
                      part.name + ": images",
                      "the images as one list of patterns, without weights");
  if (part.source->size() > 0 && !is_rows_of_tokens(fetch_one(*part.source)))
    throw usage_error(what, "samples that are rows of token ids where sources have weights",
                      part.name + ": columns, or a batch of the program's own",
                      "these files as one list of patterns, without weights");
  if (!(part.weight > 0) || !std::isfinite(part.weight))
    throw usage_error(what, "weights above 0", weight_in_words(part.weight) + " for " + part.name,
                      "leaving the source out");
}

}  // namespace

std::unique_ptr<Source> mix(std::vector<MixturePart> parts, const MixtureOptions& options,
                            const std::string& what) {
  if (parts.empty())
    throw usage_error(what, "sources to mix", "none", "at least one {path, weight}");
  for (const MixturePart& part : parts) require_mixable(part, what);
  const auto has_one_length = [](const MixturePart& part) {
    return part.source->uniform_tokens().has_value();
  };
  if (options.packing && std::all_of(parts.begin(), parts.end(), has_one_length))
    throw usage_error("data.packing", "samples of different lengths (jsonl, chat)",
                      "sources whose samples are all of one length", "packing = false");
  return std::make_unique<Mixture>(std::move(parts), options);
}

}  // namespace accrue::data
