#include "data/text/sources/sample_index.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/text/samples/unread_names.h"
#include "data/text/sources/line_reader.h"

namespace accrue::data {
namespace {

/// A line that waits for a thread.
struct TakenLine {
  std::int64_t number = 0, begin = 0;
  std::string text;
};

/// The properties of a sample.
struct SampleFacts {
  std::int64_t length = 0, longest = 0;  // inputs, and those of its longest sequence
  bool has_ids = false, counts = false;
};

/// The result for a line.
struct LineFacts {
  std::optional<LineProblem> problem;
  std::vector<SampleFacts> samples;
  std::vector<std::string> unread_keys;  ///< that earlier lines did not have
  LineForm form = LineForm::own;
};

/// The keys of one file that are not read. While lines are parsed none are added.
class KeysOfFile {
 public:
  /// The keys of a line that are not known yet.
  std::vector<std::string> new_among(std::span<const std::string> keys) const {
    std::vector<std::string> found;
    if (is_full()) return found;
    for (const std::string& key : keys)
      if (!is_known(key) && !is_known(shortened(key))) found.push_back(shortened(key));
    return found;
  }
  void add(const std::vector<std::string>& names) {
    for (const std::string& name : names)
      if (!is_full() && !is_known(name)) names_.push_back(name);
  }
  std::vector<std::string> take() { return std::exchange(names_, {}); }

 private:
  bool is_full() const { return names_.size() > most_unread_names; }
  bool is_known(const std::string& name) const {
    return std::ranges::find(names_, name) != names_.end();
  }

  std::vector<std::string> names_;
};

SampleFacts facts_of(std::span<const JsonSample> sequences) {
  SampleFacts facts;
  for (const JsonSample& sequence : sequences) {
    facts.length += sequence.length();
    facts.longest = std::max(facts.longest, sequence.length());
    facts.has_ids = facts.has_ids || sequence.has_ids;
    facts.counts = facts.counts || sequence.counts();
  }
  return facts;
}

std::vector<SampleFacts> facts_of(const SampleParser& parser) {
  const auto each = static_cast<std::size_t>(parser.sequences_per_sample());
  const std::span<const JsonSample> sequences = parser.samples();
  std::vector<SampleFacts> facts;
  for (std::size_t first = 0; first < sequences.size(); first += each)
    facts.push_back(facts_of(sequences.subspan(first, each)));
  return facts;
}

class Indexing {
 public:
  Indexing(const FilePool& files, SampleParsers& parsers, const SampleLengths& lengths,
           const TellProgress& tell, const std::string& what)
      : files_(files), parsers_(parsers), lengths_(lengths), tell_(tell), what_(what) {}

  SampleIndex index() {
    std::int64_t all = 0;
    for (std::size_t file = 0; file < files_.count(); ++file) all += files_.bytes(file);
    std::int64_t before = 0;
    for (std::size_t file = 0; file < files_.count(); before += files_.bytes(file++)) {
      LineReader reader(files_, file, what_);
      while (take_lines(reader)) {
        const std::vector<LineFacts> facts = parse_lines();
        for (std::size_t i = 0; i < facts.size(); ++i) add(file, lines_[i], facts[i]);
        if (tell_) tell_(before + lines_.back().begin, all);
      }
      index_.ends.push_back(index_.size());
      std::vector<std::string> unread = unread_.take();
      if (!unread.empty()) index_.unread.push_back({.file = file, .names = std::move(unread)});
    }
    if (tell_) tell_(all, all);
    require_samples();
    index_.begins.shrink_to_fit();
    index_.lengths.shrink_to_fit();
    return std::move(index_);
  }

 private:
  /// Takes some of the following lines; false if there are none.
  bool take_lines(LineReader& reader) {
    constexpr std::size_t enough = std::size_t{4} << 20;
    lines_.clear();
    std::size_t bytes = 0;
    while (bytes < enough) {
      const std::optional<Line> line = reader.next();
      if (!line) break;
      bytes += line->text.size();
      lines_.push_back({line->number, line->begin, std::string(line->text)});
    }
    return !lines_.empty();
  }

  std::vector<LineFacts> parse_lines() {
    constexpr std::int64_t lines_a_task = 16;
    std::vector<LineFacts> facts(lines_.size());
    at::parallel_for(0, std::ssize(lines_), lines_a_task,
                     [&](std::int64_t begin, std::int64_t end) {
                       const SampleParsers::Lease parser = parsers_.acquire();
                       for (std::int64_t i = begin; i < end; ++i) {
                         const auto place = static_cast<std::size_t>(i);
                         facts[place] = facts_of_line(*parser, lines_[place].text);
                       }
                     });
    return facts;
  }

  LineFacts facts_of_line(SampleParser& parser, const std::string& text) const {
    LineFacts facts{.problem = parser.parse(text), .samples = {}, .unread_keys = {}};
    if (facts.problem) return facts;
    facts.samples = facts_of(parser);
    facts.unread_keys = unread_.new_among(parser.unread_keys());
    facts.form = parser.form();
    return facts;
  }

  void add(std::size_t file, const TakenLine& line, const LineFacts& facts) {
    if (facts.problem)
      throw usage_error(what_, facts.problem->expected,
                        place_of_line(files_, file, line.number) + ": " + facts.problem->received,
                        facts.problem->suggestion);
    for (std::size_t part = 0; part < facts.samples.size(); ++part)
      add(file, line, facts.samples[part], part);
    unread_.add(facts.unread_keys);
    index_.has_alpaca = index_.has_alpaca || facts.form == LineForm::alpaca;
    index_.has_sharegpt = index_.has_sharegpt || facts.form == LineForm::sharegpt;
  }

  void add(std::size_t file, const TakenLine& line, const SampleFacts& facts, std::size_t part) {
    index_.has_ids = index_.has_ids || facts.has_ids;
    index_.has_text = index_.has_text || !facts.has_ids;
    if (facts.length < 1) {
      ++index_.too_short;
      return;
    }
    if (facts.longest > lengths_.context) {
      ++too_long_;
      if (facts.longest > longest_) {
        longest_ = facts.longest;
        longest_at_ = place_of_line(files_, file, line.number);
      }
      return;
    }
    index_.has_counting_label = index_.has_counting_label || facts.counts;
    if (part > 0 && index_.parts.empty())
      index_.parts.resize(static_cast<std::size_t>(index_.size()), 0);
    if (part > 0 || !index_.parts.empty()) index_.parts.push_back(static_cast<std::uint16_t>(part));
    index_.begins.push_back(line.begin);
    index_.lengths.push_back(static_cast<std::int32_t>(facts.length));
  }

  void require_samples() const {
    const std::string first = files_.path(0).string();
    if (too_long_ > 0) {
      throw usage_error(
          what_,
          "samples of at most " + std::to_string(lengths_.context + lengths_.only_predicted) +
              " tokens (a context of " + std::to_string(lengths_.context) +
              (lengths_.only_predicted == 0 ? ")" : " and one more to predict)"),
          std::to_string(too_long_) + " longer, the longest of " +
              std::to_string(longest_ + lengths_.only_predicted) + " at " + longest_at_,
          "model.context = " + std::to_string(longest_) + ", or cutting the samples");
    }
    if (index_.begins.empty()) {
      throw usage_error(
          what_, "samples of at least " + lengths_.least_in_words(),
          "none in " + std::to_string(files_.count()) + " file(s), the first being " + first,
          "more data");
    }
    if (!index_.has_counting_label) {
      throw usage_error(what_, "labels that count",
                        "none in " + std::to_string(index_.size()) + " samples, the first in " +
                            first + ": all are -100 or have weight 0",
                        "labels that are not all masked, and weights above 0");
    }
  }

  const FilePool& files_;
  SampleParsers& parsers_;
  SampleLengths lengths_;
  const TellProgress& tell_;
  const std::string& what_;
  SampleIndex index_;
  std::vector<TakenLine> lines_;
  KeysOfFile unread_;          ///< of the current file
  std::int64_t too_long_ = 0;  ///< samples
  std::int64_t longest_ = 0;   ///< inputs
  std::string longest_at_;
};

/// The beginning of an index file: the rest has known length.
struct IndexHeader {
  std::int64_t samples = 0, files = 0, parts = 0, too_short = 0;
  std::int64_t has_ids = 0, has_text = 0, has_counting_label = 0;
  std::int64_t has_alpaca = 0, has_sharegpt = 0;
  std::int64_t unread_bytes = 0;  ///< of SampleIndex::unread, as JSON
};

std::string text_of(const std::vector<UnreadKeys>& unread) {
  nlohmann::json files = nlohmann::json::array();
  for (const UnreadKeys& keys : unread)
    files.push_back(nlohmann::json::array({keys.file, keys.names}));
  return files.dump();
}

/// None if the text is not that of such keys.
std::optional<std::vector<UnreadKeys>> unread_of(std::string_view text, std::size_t all_files) {
  const nlohmann::json files = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!files.is_array()) return std::nullopt;
  std::vector<UnreadKeys> unread;
  for (const nlohmann::json& keys : files) {
    if (!keys.is_array() || keys.size() != 2 || !keys[0].is_number_unsigned() ||
        !keys[1].is_array())
      return std::nullopt;
    if (keys[0].get<std::size_t>() >= all_files) return std::nullopt;
    UnreadKeys of_file{.file = keys[0].get<std::size_t>(), .names = {}};
    for (const nlohmann::json& name : keys[1]) {
      if (!name.is_string()) return std::nullopt;
      of_file.names.push_back(name.get<std::string>());
    }
    unread.push_back(std::move(of_file));
  }
  return unread;
}

template <class T>
void append(const std::vector<T>& values, std::string& bytes) {
  if (!values.empty())
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <class T>
std::vector<T> take(std::int64_t count, std::string_view& bytes) {
  std::vector<T> values(static_cast<std::size_t>(count));
  if (values.empty()) return values;
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  bytes.remove_prefix(values.size() * sizeof(T));
  return values;
}

constexpr std::int64_t bytes_a_sample = sizeof(std::int64_t) + sizeof(std::int32_t);
constexpr std::int64_t bytes_a_part = sizeof(std::uint16_t);

bool has_length_of(const IndexHeader& header, std::size_t bytes) {
  const auto all = static_cast<std::int64_t>(bytes);
  if (header.samples < 0 || header.samples > all || header.files < 0 || header.files > all)
    return false;
  if (header.parts != 0 && header.parts != header.samples) return false;
  if (header.unread_bytes < 0 || header.unread_bytes > all) return false;
  return all == header.samples * bytes_a_sample + header.parts * bytes_a_part +
                    header.files * static_cast<std::int64_t>(sizeof(std::int64_t)) +
                    header.unread_bytes;
}

}  // namespace

SampleIndex index_samples(const FilePool& files, SampleParsers& parsers,
                          const SampleLengths& lengths, const TellProgress& tell,
                          const std::string& what) {
  return Indexing(files, parsers, lengths, tell, what).index();
}

std::string place_of_line(const FilePool& files, std::size_t file, std::int64_t line) {
  return files.path(file).string() + ":" + std::to_string(line);
}

Error changed_line(const FilePool& files, std::size_t file, std::int64_t begin) {
  return runtime_error("read " + place_of_line(files, file, line_number_at(files, file, begin)),
                       "the sample that was there when the file was opened", "another line",
                       "restoring the file, then resuming the run");
}

std::string to_bytes(const SampleIndex& index) {
  const std::string unread = text_of(index.unread);
  const IndexHeader header{.samples = index.size(),
                           .files = std::ssize(index.ends),
                           .parts = std::ssize(index.parts),
                           .too_short = index.too_short,
                           .has_ids = index.has_ids,
                           .has_text = index.has_text,
                           .has_counting_label = index.has_counting_label,
                           .has_alpaca = index.has_alpaca,
                           .has_sharegpt = index.has_sharegpt,
                           .unread_bytes = std::ssize(unread)};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  append(index.begins, bytes);
  append(index.ends, bytes);
  append(index.lengths, bytes);
  append(index.parts, bytes);
  bytes += unread;
  return bytes;
}

std::optional<SampleIndex> index_of_bytes(std::string_view bytes) {
  IndexHeader header;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes.remove_prefix(sizeof header);
  if (!has_length_of(header, bytes.size())) return std::nullopt;
  SampleIndex index;
  index.begins = take<std::int64_t>(header.samples, bytes);
  index.ends = take<std::int64_t>(header.files, bytes);
  index.lengths = take<std::int32_t>(header.samples, bytes);
  index.parts = take<std::uint16_t>(header.parts, bytes);
  index.too_short = header.too_short;
  index.has_ids = header.has_ids != 0;
  index.has_text = header.has_text != 0;
  index.has_counting_label = header.has_counting_label != 0;
  index.has_alpaca = header.has_alpaca != 0;
  index.has_sharegpt = header.has_sharegpt != 0;
  std::optional<std::vector<UnreadKeys>> unread = unread_of(bytes, index.ends.size());
  if (!unread) return std::nullopt;
  index.unread = std::move(*unread);
  return index;
}

}  // namespace accrue::data
