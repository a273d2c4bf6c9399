#include "data/text/sources/jsonl_source.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/words.h"
#include "data/chat/lines/chat_sample.h"
#include "data/sequence_batch.h"
#include "data/source_errors.h"
#include "data/text/samples/unread_names.h"
#include "data/text/sources/line_reader.h"
#include "data/text/sources/pair_sample.h"
#include "data/text/tokens/byte_vocab.h"
#include "data/text/tokens/text_tokens.h"

namespace accrue::data {
namespace {

/// Changes whenever the index of the same lines does.
constexpr const char* index_form = "samples 3";

SampleParsers::Make parsers_for(const JsonlOptions& options) {
  return [bound = options.vocab_bound, tokenizer = options.tokenizer, chat = options.chat,
          pairs = options.pairs, whole = options.whole]() -> std::unique_ptr<SampleParser> {
    if (pairs) return std::make_unique<PairSampleParser>(bound, tokenizer.get(), chat);
    std::unique_ptr<SampleParser> parser;
    if (chat)
      parser = std::make_unique<ChatSampleParser>(bound, *tokenizer, chat);
    else
      parser = std::make_unique<JsonSampleParser>(bound, tokenizer.get());
    if (whole) parser = std::make_unique<WholeSampleParser>(std::move(parser));
    return parser;
  };
}

/// The part of a fingerprint that describes the samples rather than the files.
std::string kind_of(const JsonlOptions& options) {
  std::string kind = options.chat ? "chat" : "jsonl";
  if (options.pairs) kind += ", pairs";
  if (options.whole) kind += ", whole";
  if (options.packing) kind += ", packed";
  kind = with_tokenizer(std::move(kind), options.tokenizer.get());
  return options.chat ? kind + ", template " + options.chat->fingerprint : kind;
}

SampleLengths lengths_of(const JsonlOptions& options) {
  return {.context = options.context, .only_predicted = options.whole ? 0 : 1};
}

std::int64_t length_of(std::span<const JsonSample> sequences) {
  std::int64_t length = 0;
  for (const JsonSample& sequence : sequences) length += sequence.length();
  return length;
}

/// How the fields of other tools' lines are interpreted.
constexpr const char* alpaca_as_text =
    R"("instruction" and "input" (if it is not empty) are given, a line each, and "output" is )"
    R"(learned; data.format = "chat" makes conversations of them)";
constexpr const char* alpaca_as_chat =
    R"("instruction" and "input" (if it is not empty) are what the user says, a line each, and )"
    R"("output" is what the assistant says; data.format = "jsonl" reads them as text)";
constexpr const char* sharegpt_as_chat =
    R"("conversations" are read as "messages": "from" human is the user, gpt the assistant, )"
    R"(observation a tool, and function_call the assistant that calls tools)";

/// A sentence for each file; if there are many, for the first ones.
std::vector<std::string> remarks_on_keys(const SampleIndex& index, const FilePool& files) {
  constexpr std::size_t most_files = 8;
  const std::size_t shown = std::min(index.unread.size(), most_files);
  std::vector<std::string> sentences;
  for (std::size_t i = 0; i < shown; ++i)
    sentences.push_back(files.path(index.unread[i].file).string() +
                        ": keys that are not read: " + unread_in_words(index.unread[i].names));
  if (const std::size_t more = index.unread.size() - shown; more > 0)
    sentences.push_back(counted(static_cast<std::int64_t>(more), "more file") +
                        " with keys that are not read");
  return sentences;
}

Sequence sequence_of(const JsonSample& sample) {
  return {.inputs = {sample.tokens.begin(), sample.tokens.end() - sample.only_predicted()},
          .targets = {sample.labels.begin() + sample.only_predicted(), sample.labels.end()},
          .weight = sample.weight};
}

}  // namespace

JsonlSource::JsonlSource(std::unique_ptr<const FilePool> files, const JsonlOptions& options,
                         const std::string& what)
    : files_(std::move(files)),
      options_(options),
      parsers_(parsers_for(options)),
      index_(make_index(what)),
      fingerprint_(kind_of(options), *files_) {}

/// Bytes need no cache: reading them again costs the same as comparing them with one.
SampleIndex JsonlSource::make_index(const std::string& what) {
  if (options_.tokenizer && !options_.cache.empty()) return cached_index(what);
  return index_samples(*files_, parsers_, lengths_of(options_), options_.tell_progress, what);
}

SampleIndex JsonlSource::cached_index(const std::string& what) {
  TextCache cache(options_.cache);
  const std::string digest = digest_of(*files_, std::string(index_form) + " " + kind_of(options_) +
                                                    " " + std::to_string(options_.context) + " " +
                                                    std::to_string(options_.vocab_bound));
  std::optional<SampleIndex> index;
  const FileHead kept = cache.file(digest + ".samples", [&](const WriteBytes& write) {
    index = index_samples(*files_, parsers_, lengths_of(options_), options_.tell_progress, what);
    write(to_bytes(*index));
  });
  cache_remarks_ = cache.remarks();
  if (!index) index = index_of_bytes(content_of(kept));
  if (!index || index->ends.size() != files_->count())
    throw runtime_error("read " + kept.path.string(), "the index of samples that was written there",
                        "other bytes", "removing it: it is made again");
  return std::move(*index);
}

std::int64_t JsonlSource::vocab() const {
  if (index_.has_ids) return 0;
  return options_.tokenizer ? options_.tokenizer->vocab() : byte_vocab;
}

std::int64_t JsonlSource::tokens(std::int64_t index) const {
  require_index(index, size());
  return index_.lengths[static_cast<std::size_t>(index)];
}

std::vector<std::string> JsonlSource::remarks() const {
  std::vector<std::string> remarks;
  if (index_.too_short > 0)
    remarks.push_back(std::to_string(index_.too_short) + " sample(s) of fewer than " +
                      lengths_of(options_).least_in_words() + " are left out");
  if (index_.has_alpaca) remarks.emplace_back(options_.chat ? alpaca_as_chat : alpaca_as_text);
  if (index_.has_sharegpt) remarks.emplace_back(sharegpt_as_chat);
  std::ranges::move(remarks_on_keys(index_, *files_), std::back_inserter(remarks));
  remarks.insert(remarks.end(), options_.notes.begin(), options_.notes.end());
  remarks.insert(remarks.end(), cache_remarks_.begin(), cache_remarks_.end());
  if (options_.lines) std::ranges::move(options_.lines->remarks(), std::back_inserter(remarks));
  return remarks;
}

batch::MicroBatch JsonlSource::fetch(std::span<const std::int64_t> indices) const {
  const SampleParsers::Lease parser = parsers_.acquire();
  std::string buffer;
  std::vector<Sequence> sequences;
  std::vector<std::int64_t> lengths;
  for (const std::int64_t index : indices) {
    require_index(index, size());
    require_unchanged(index, *parser, parser->parse(read_line(index, buffer)));
    for (const JsonSample& sequence : sequences_of(index, *parser)) {
      sequences.push_back(sequence_of(sequence));
      lengths.push_back(sequence.length());
    }
  }
  const auto spans = options_.packing ? first_fit(lengths, options_.context) : one_a_row(lengths);
  batch::MicroBatch micro = make_micro_batch(sequences, spans);
  if (options_.packing) micro.spans = spans;
  micro.sequences_per_sample = parser->sequences_per_sample();
  return micro;
}

std::span<const JsonSample> JsonlSource::sequences_of(std::int64_t index,
                                                      const SampleParser& parser) const {
  const auto each = static_cast<std::size_t>(parser.sequences_per_sample());
  const std::size_t first = index_.part_of(index) * each;
  const std::span<const JsonSample> all = parser.samples();
  return first + each <= all.size() ? all.subspan(first, each) : std::span<const JsonSample>();
}

std::size_t JsonlSource::file_of(std::int64_t index) const {
  return static_cast<std::size_t>(std::upper_bound(index_.ends.begin(), index_.ends.end(), index) -
                                  index_.ends.begin());
}

// The line is read by pieces until it ends: the text between it and the next sample (blank lines,
// too short ones) can be as long as the file.
std::string_view JsonlSource::read_line(std::int64_t index, std::string& buffer) const {
  constexpr std::int64_t beside_tokens = 256;  // bytes of a short object besides its tokens
  const std::size_t file = file_of(index);
  const std::int64_t begin = index_.begins[static_cast<std::size_t>(index)];
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

void JsonlSource::require_unchanged(std::int64_t index, const SampleParser& parser,
                                    const std::optional<LineProblem>& problem) const {
  if (!problem && length_of(sequences_of(index, parser)) == tokens(index)) return;
  throw changed_line(*files_, file_of(index), index_.begins[static_cast<std::size_t>(index)]);
}

}  // namespace accrue::data
