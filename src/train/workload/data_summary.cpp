#include "train/workload/data_summary.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "accrue/core/error.h"
#include "core/checksum.h"
#include "data/fetch.h"
#include "data/sequence_batch.h"
#include "train/workload/class_remarks.h"

namespace accrue::train {
namespace {

/// One sequence's tokens, with the last one, which is only predicted, and whether each is learned.
struct TokensOfSequence {
  std::vector<std::int64_t> ids;
  std::vector<bool> learned;
};

/// A sample of two sequences is a pair.
using TokensOfSample = std::vector<TokensOfSequence>;

/// Columns of a row up to the last learned one; all of it if nothing is learned.
std::int64_t learned_columns(const at::Tensor& targets) {
  const auto* const begin = targets.const_data_ptr<std::int64_t>();
  const auto* end = begin + targets.numel();
  while (end > begin && end[-1] == data::ignored_target) --end;
  return end == begin ? targets.numel() : end - begin;
}

/// The positions of the sequences in a sample that is fetched alone.
std::vector<SampleSpan> places_in(const batch::MicroBatch& sample, std::int64_t tokens) {
  if (!sample.spans.empty()) return sample.spans;
  if (sample.sequences_per_sample == 1) return {{.row = 0, .begin = 0, .end = tokens}};
  std::vector<SampleSpan> places;
  for (std::int64_t row = 0; row < sample.sequences_per_sample; ++row)
    places.push_back({.row = row, .begin = 0, .end = learned_columns(sample.targets[row])});
  return places;
}

/// `whole`: no token is only predicted, and targets are at the positions of their own tokens.
TokensOfSequence tokens_at(const batch::MicroBatch& sample, const SampleSpan& place, bool whole) {
  const auto columns = [&](const at::Tensor& of) {
    return std::span(of[place.row].const_data_ptr<std::int64_t>() + place.begin,
                     static_cast<std::size_t>(place.end - place.begin));
  };
  const auto inputs = columns(sample.inputs), targets = columns(sample.targets);
  TokensOfSequence tokens{.ids = {inputs.begin(), inputs.end()}, .learned = {}};
  // The label of a token that is not learned is another token's: only the last one appears nowhere
  // else.
  if (!whole && targets.back() != data::ignored_target) tokens.ids.push_back(targets.back());
  if (!whole) tokens.learned.push_back(false);
  const bool counts =
      !sample.weights.defined() || sample.weights[place.row][place.begin].item<float>() > 0;
  for (const std::int64_t target : targets.first(tokens.ids.size() - tokens.learned.size()))
    tokens.learned.push_back(counts && target != data::ignored_target);
  return tokens;
}

TokensOfSample tokens_of(const data::Source& source, std::int64_t index, bool whole) {
  const batch::MicroBatch sample = source.fetch(std::span(&index, 1));
  TokensOfSample sequences;
  for (const SampleSpan& place : places_in(sample, source.tokens(index)))
    sequences.push_back(tokens_at(sample, place, whole));
  return sequences;
}

std::string text_of(const data::Source& source, std::span<const std::int64_t> ids) {
  if (!source.has_text() || source.vocab() == 0) {
    std::string text;
    for (const std::int64_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
    return text;
  }
  const auto tokenizer = source.tokenizer();
  return tokenizer ? tokenizer->decode(ids) : data::bytes_to_text(ids);
}

/// Text by parts that are learned or not: the first token of a sequence has no predecessor, and is
/// added to what follows.
void add_parts(const data::Source& source, TokensOfSequence tokens, const char* name,
               std::vector<ShownPart>& parts) {
  if (tokens.learned.size() > 1) tokens.learned[0] = tokens.learned[1];
  for (std::size_t begin = 0, end = 0; begin < tokens.ids.size(); begin = end) {
    while (end < tokens.ids.size() && tokens.learned[end] == tokens.learned[begin]) ++end;
    const std::span ids = std::span(tokens.ids).subspan(begin, end - begin);
    parts.push_back({text_of(source, ids), std::ssize(ids), tokens.learned[begin], name});
  }
}

std::vector<ShownPart> parts_of(const data::Source& source, const TokensOfSample& sample) {
  std::vector<ShownPart> parts;
  if (sample.size() == 1) {
    add_parts(source, sample.front(), "", parts);
  } else {
    add_parts(source, sample.at(0), "chosen", parts);
    add_parts(source, sample.at(1), "rejected", parts);
  }
  return parts;
}

std::uint64_t digest_of_sample(const TokensOfSample& sample) {
  Checksum digest;
  for (const TokensOfSequence& tokens : sample) {
    const auto bytes = std::as_bytes(std::span(tokens.ids));
    digest.add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    for (const bool learned : tokens.learned) digest.add(learned ? "1" : "0");
  }
  return std::stoull(digest.text(), nullptr, 16);
}

/// The last token is only predicted.
std::int64_t inputs_of(const TokensOfSequence& sequence) { return std::ssize(sequence.ids) - 1; }

LengthSummary summary_of(std::vector<std::int64_t> lengths) {
  const auto middle = lengths.begin() + (std::ssize(lengths) - 1) / 2;
  std::nth_element(lengths.begin(), middle, lengths.end());
  const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
  const auto sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  return {.least = *least,
          .median = *middle,
          .most = *most,
          .mean = static_cast<double>(sum) / static_cast<double>(lengths.size())};
}

std::int64_t learned_of(const TokensOfSample& sample) {
  std::int64_t count = 0;
  for (const TokensOfSequence& tokens : sample)
    count += std::count(tokens.learned.begin(), tokens.learned.end(), true);
  return count;
}

/// The sources of a mixture, whose samples are consecutive; `lengths` has those of all samples.
std::vector<SourceSummary> sources_of(const data::Source& source,
                                      std::span<const std::int64_t> lengths) {
  std::vector<SourceSummary> sources;
  for (const data::MixturePart& part : source.parts()) {
    const std::int64_t samples = part.source->size();
    const auto own = lengths.first(static_cast<std::size_t>(samples));
    sources.push_back({part.name, part.weight, samples,
                       std::accumulate(own.begin(), own.end(), std::int64_t{0})});
    lengths = lengths.subspan(own.size());
  }
  return sources;
}

/// The values of a sample that a batch needs.
struct SampleFacts {
  std::int64_t tokens = 0, learned = 0;
  std::vector<std::int64_t> lengths;  ///< inputs of its sequences
};

SampleFacts facts_of(const TokensOfSample& sample, std::int64_t tokens) {
  SampleFacts facts{.tokens = tokens, .learned = learned_of(sample), .lengths = {}};
  if (sample.size() == 1) facts.lengths = {tokens};
  if (sample.size() > 1)
    for (const TokensOfSequence& sequence : sample) facts.lengths.push_back(inputs_of(sequence));
  return facts;
}

/// The first batch of a run. Its samples are read along with all others, which fills in the facts.
struct FirstBatch {
  std::int64_t windows_per_epoch = 0;
  std::vector<std::int64_t> samples;  ///< in the order of draws
  std::unordered_map<std::int64_t, SampleFacts> facts;
};

FirstBatch first_batch_of(const Config& config, const std::shared_ptr<const data::Source>& train) {
  const batch::WindowSchedule schedule = make_window_schedule(config, train);
  const batch::Sampler sampler = make_sampler(config, *train);
  FirstBatch first{.windows_per_epoch = schedule.windows_per_epoch(), .samples = {}, .facts = {}};
  const batch::Range range = schedule.window(0);
  for (std::int64_t draw = range.begin; draw < range.end; ++draw) {
    first.samples.push_back(sampler.sample(draw));
    first.facts.try_emplace(first.samples.back());
  }
  return first;
}

DataSummary summarize_images(const data::Source& source, const data::ImageShape& shape) {
  return {.samples = source.size(),
          .images =
              ImageSummary{
                  .shape = shape, .classes = source.classes(), .has_masks = source.has_masks()},
          .remarks = source.remarks()};
}

/// `first` is null if no batch is made of the samples.
DataSummary summarize(const data::Source& source, bool whole, std::int64_t shown,
                      FirstBatch* first) {
  if (const auto shape = source.image_shape()) return summarize_images(source, *shape);
  DataSummary summary{.samples = source.size(), .remarks = source.remarks()};
  std::vector<std::int64_t> lengths;
  std::unordered_set<std::uint64_t> known;
  const std::int64_t apart =
      std::max<std::int64_t>(1, source.size() / std::max<std::int64_t>(1, shown));
  for (std::int64_t i = 0; i < source.size(); ++i) {
    const TokensOfSample tokens = tokens_of(source, i, whole);
    lengths.push_back(source.tokens(i));
    summary.tokens += lengths.back();
    summary.learned += learned_of(tokens);
    if (!known.insert(digest_of_sample(tokens)).second) ++summary.duplicates;
    if (first != nullptr && first->facts.contains(i))
      first->facts[i] = facts_of(tokens, lengths.back());
    if (i % apart == 0 && std::ssize(summary.shown) < shown)
      summary.shown.push_back({i, parts_of(source, tokens)});
  }
  summary.sources = sources_of(source, lengths);
  summary.lengths = summary_of(std::move(lengths));
  return summary;
}

/// The share of padding if rows of a micro-batch are as long as its longest sample.
double padding_of(std::span<const std::int64_t> lengths, std::int64_t micro) {
  std::int64_t room = 0, used = 0;
  for (std::size_t begin = 0; begin < lengths.size();) {
    const std::size_t count = std::min(static_cast<std::size_t>(micro), lengths.size() - begin);
    const auto rows = lengths.subspan(begin, count);
    room += *std::max_element(rows.begin(), rows.end()) * std::ssize(rows);
    used = std::accumulate(rows.begin(), rows.end(), used);
    begin += count;
  }
  return room == 0 ? 0 : 1 - static_cast<double>(used) / static_cast<double>(room);
}

WindowSummary summarize_window(const Config& config, const FirstBatch& first) {
  const std::int64_t samples = std::ssize(first.samples);
  WindowSummary window{.samples = samples,
                       .micro_batch = std::min(config.batch.micro.value_or(samples), samples),
                       .windows_per_epoch = first.windows_per_epoch};
  std::vector<std::int64_t> lengths;  // of the sequences
  for (const std::int64_t sample : first.samples) {
    const SampleFacts& facts = first.facts.at(sample);
    window.tokens += facts.tokens;
    window.learned += facts.learned;
    lengths.insert(lengths.end(), facts.lengths.begin(), facts.lengths.end());
  }
  const std::int64_t sequences = std::ssize(lengths) / window.samples;
  if (!config.data.packing) window.padding = padding_of(lengths, window.micro_batch * sequences);
  return window;
}

/// Throws if samples are neither images nor rows of token ids with a label for each.
void expect_tokens_or_images(const data::Source& source) {
  if (source.image_shape()) return;
  const batch::MicroBatch sample = data::fetch_one(source);
  const bool has_labels = sample.targets.defined() && sample.targets.scalar_type() == at::kLong &&
                          sample.targets.sizes() == sample.inputs.sizes();
  if (data::is_rows_of_tokens(sample) && has_labels) return;
  throw usage_error("show the data", "samples of tokens, or images",
                    sample.columns.empty() ? "samples of another kind, which the program brings"
                                           : "tensors by name, as data.columns says",
                    "accrue plan, which shows how many there are and what a batch takes");
}

}  // namespace

DataReport summarize_data(const Config& stated, std::int64_t shown, const ShowProgress& show) {
  Config config = with_whole_batch(stated, 1);
  const Datasets data = open_data(config, show);
  const LongOperation reading(show, "reading all samples");
  expect_tokens_or_images(*data.train);
  const bool whole = config.loss.kind == models::LossKind::mlm;
  FirstBatch first = first_batch_of(config, data.train);
  DataReport report{.train = summarize(*data.train, whole, shown, &first),
                    .vocab = data.train->vocab()};
  report.window = summarize_window(config, first);
  std::ranges::move(class_remarks(data), std::back_inserter(report.train.remarks));
  if (data.val) report.val = summarize(*data.val, whole, shown, nullptr);
  return report;
}

}  // namespace accrue::train
