#include "train/workload/data_summary.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_set>
#include <utility>

#include "accrue/core/error.h"
#include "core/checksum.h"
#include "data/fetch.h"
#include "data/text/sequence_batch.h"

namespace accrue::train {
namespace {

/// One sequence's tokens, with the last one that is only predicted, and whether each is learned.
struct TokensOfSequence {
  std::vector<std::int64_t> ids;
  std::vector<bool> learned;
};

/// A sample of two sequences is a pair.
using TokensOfSample = std::vector<TokensOfSequence>;

/// Columns of a row up to the last that is learned; all of it where nothing is.
std::int64_t learned_columns(const at::Tensor& targets) {
  const auto* const begin = targets.const_data_ptr<std::int64_t>();
  const auto* end = begin + targets.numel();
  while (end > begin && end[-1] == data::ignored_target) --end;
  return end == begin ? targets.numel() : end - begin;
}

/// Where the sequences of a sample lie that is fetched alone.
std::vector<SampleSpan> places_in(const batch::MicroBatch& sample, std::int64_t tokens) {
  if (!sample.spans.empty()) return sample.spans;
  if (sample.sequences_per_sample == 1) return {{.row = 0, .begin = 0, .end = tokens}};
  std::vector<SampleSpan> places;
  for (std::int64_t row = 0; row < sample.sequences_per_sample; ++row)
    places.push_back({.row = row, .begin = 0, .end = learned_columns(sample.targets[row])});
  return places;
}

TokensOfSequence tokens_at(const batch::MicroBatch& sample, const SampleSpan& place) {
  const auto columns = [&](const at::Tensor& of) {
    return std::span(of[place.row].const_data_ptr<std::int64_t>() + place.begin,
                     static_cast<std::size_t>(place.end - place.begin));
  };
  const auto inputs = columns(sample.inputs), targets = columns(sample.targets);
  TokensOfSequence tokens{.ids = {inputs.begin(), inputs.end()}, .learned = {false}};
  // The label of a token that is not learned is not its own: only the last one is seen nowhere
  // else.
  if (targets.back() != data::ignored_target) tokens.ids.push_back(targets.back());
  const bool counts =
      !sample.weights.defined() || sample.weights[place.row][place.begin].item<float>() > 0;
  for (const std::int64_t target : targets.first(tokens.ids.size() - 1))
    tokens.learned.push_back(counts && target != data::ignored_target);
  return tokens;
}

TokensOfSample tokens_of(const data::Source& source, std::int64_t index) {
  const batch::MicroBatch sample = source.fetch(std::span(&index, 1));
  TokensOfSample sequences;
  for (const SampleSpan& place : places_in(sample, source.tokens(index)))
    sequences.push_back(tokens_at(sample, place));
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

/// Text as it is learned: the first token of a sequence has nothing before it, and goes with what
/// follows.
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

/// The sources of a mixture, whose samples stand one behind the other; `lengths` has all samples'.
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

DataSummary summarize(const data::Source& source, std::int64_t shown) {
  DataSummary summary{.samples = source.size(), .remarks = source.remarks()};
  std::vector<std::int64_t> lengths;
  std::unordered_set<std::uint64_t> known;
  const std::int64_t apart =
      std::max<std::int64_t>(1, source.size() / std::max<std::int64_t>(1, shown));
  for (std::int64_t i = 0; i < source.size(); ++i) {
    const TokensOfSample tokens = tokens_of(source, i);
    lengths.push_back(source.tokens(i));
    summary.tokens += lengths.back();
    summary.learned += learned_of(tokens);
    if (!known.insert(digest_of_sample(tokens)).second) ++summary.duplicates;
    if (i % apart == 0 && std::ssize(summary.shown) < shown)
      summary.shown.push_back({i, parts_of(source, tokens)});
  }
  summary.sources = sources_of(source, lengths);
  summary.lengths = summary_of(std::move(lengths));
  return summary;
}

/// The share of padding where rows of a micro-batch are as long as its longest sample.
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

WindowSummary summarize_window(const Config& config,
                               const std::shared_ptr<const data::Source>& train) {
  const batch::WindowSchedule schedule = make_window_schedule(config, train);
  const batch::Sampler sampler = make_sampler(config, *train);
  const batch::Range range = schedule.window(0);
  WindowSummary window{
      .samples = range.size(),
      .micro_batch = std::min(config.batch.micro.value_or(range.size()), range.size()),
      .windows_per_epoch = schedule.windows_per_epoch()};
  std::vector<std::int64_t> lengths;  // of the sequences
  for (std::int64_t draw = range.begin; draw < range.end; ++draw) {
    const std::int64_t sample = sampler.sample(draw);
    const TokensOfSample tokens = tokens_of(*train, sample);
    window.tokens += train->tokens(sample);
    window.learned += learned_of(tokens);
    if (tokens.size() == 1) lengths.push_back(train->tokens(sample));
    if (tokens.size() > 1)
      for (const TokensOfSequence& sequence : tokens) lengths.push_back(inputs_of(sequence));
  }
  const std::int64_t sequences = std::ssize(lengths) / window.samples;
  if (!config.data.packing) window.padding = padding_of(lengths, window.micro_batch * sequences);
  return window;
}

}  // namespace

DataReport summarize_data(const Config& stated, std::int64_t shown,
                          const data::TellProgress& tell) {
  Config config = with_whole_batch(stated, 1);
  const Datasets data = open_data(config, tell);
  if (data.train->image_shape())
    throw usage_error("data", "text, tokens or JSON lines", "images",
                      "accrue train --dry-run, which counts images");
  DataReport report{.train = summarize(*data.train, shown),
                    .window = summarize_window(config, data.train),
                    .vocab = data.train->vocab()};
  if (data.val) report.val = summarize(*data.val, shown);
  return report;
}

}  // namespace accrue::train
