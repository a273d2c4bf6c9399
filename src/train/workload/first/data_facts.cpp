#include <ATen/ATen.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "data/files/suffix.h"
#include "train/workload/first_config.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOperation = "accrue init";
constexpr std::int64_t kLongestLine = std::int64_t{1} << 24;  // tokens

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

/// Whether a word of the file's name says so: "corpus.val.txt", "test_batch.bin".
bool is_held_out(const fs::path& file) {
  std::string word;
  for (const char c : lower(file.filename().string()) + '.') {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      word += c;
      continue;
    }
    if (is_one_of(word, {"val", "valid", "validation", "dev", "test", "t10k"})) return true;
    word.clear();
  }
  return false;
}

bool is_image(const fs::path& file) {
  return is_one_of(data::suffix_of(file), {".png", ".jpg", ".jpeg"});
}

bool is_idx_labels(const fs::path& file) {
  return lower(file.filename().string()).ends_with("idx1-ubyte");
}

/// Whether a file is of an image set, whose suffix does not say so.
bool is_binary_image_set(const fs::path& file) {
  const std::string name = lower(file.filename().string());
  return name.ends_with("idx3-ubyte") ||
         (name.ends_with(".bin") &&
          (name.starts_with("data_batch") || name.starts_with("test_batch")));
}

bool is_json_lines(const fs::path& file) { return data::has_json_lines_suffix(file); }

/// The globs for all images in `folder`, or else for its JSON lines, one for each way in which
/// their suffixes are written; or the glob for everything.
std::set<std::string> globs_of(const fs::path& folder) {
  for (const auto is_wanted : {is_image, is_json_lines}) {
    std::set<std::string> globs;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file() && is_wanted(entry.path()))
        globs.insert((folder / "**" / ("*" + entry.path().extension().string())).string());
    if (!globs.empty()) return globs;
  }
  return {(folder / "**").string()};
}

/// The context that a config.json tells; 0 where it tells none: whoever loads the model says what
/// is wrong with the file.
std::int64_t context_of(const fs::path& model_config) {
  const auto config = nlohmann::json::parse(read_file(model_config), nullptr, false);
  if (!config.is_object() || !config.contains("n_positions")) return 0;
  const auto& context = config["n_positions"];
  return context.is_number_integer() ? context.get<std::int64_t>() : 0;
}

void add_folder(const fs::path& folder, DataFacts& facts) {
  if (fs::exists(folder / "config.json")) {
    if (!facts.model.empty())
      throw usage_error(kOperation, "at most one model folder",
                        facts.model.string() + " and " + folder.string(), "one of them");
    facts.model = folder;
    facts.model_context = context_of(folder / "config.json");
    return;
  }
  const std::set<std::string> globs = globs_of(folder);
  auto& place = is_held_out(folder) ? facts.val : facts.train;
  place.insert(place.end(), globs.begin(), globs.end());
}

void add_file(const fs::path& file, DataFacts& facts) {
  if (is_idx_labels(file)) return;
  facts.states_format = facts.states_format || is_binary_image_set(file);
  (is_held_out(file) ? facts.val : facts.train).push_back(file.string());
}

void sort_out(const std::vector<std::string>& files, DataFacts& facts) {
  for (const std::string& name : files) {
    fs::path path(name);
    if (!path.has_filename()) path = path.parent_path();
    if (!fs::exists(path))
      throw usage_error(kOperation, "files and folders that exist", "'" + name + "'",
                        "a path that leads there from " + fs::current_path().string());
    fs::is_directory(path) ? add_folder(path, facts) : add_file(path, facts);
  }
  if (facts.train.empty()) std::swap(facts.train, facts.val);
  if (facts.train.empty())
    throw usage_error(
        kOperation, "files to train on",
        facts.model.empty() ? "none" : "the model " + facts.model.string() + " alone",
        "accrue init " + (facts.model.empty() ? "" : facts.model.string() + " ") + "text.txt");
}

std::unique_ptr<data::Source> open(const DataFacts& facts, std::int64_t context,
                                   std::int64_t vocab = 0) {
  data::SourceOptions options{.globs = facts.train, .context = context, .vocab = vocab};
  if (facts.states_format) options.format = data::Format::images;
  return data::open_source(options, kOperation);
}

std::int64_t largest_id(const data::Source& source, std::int64_t first) {
  constexpr std::int64_t kAtOnce = 4096;
  std::int64_t largest = 0;
  for (std::int64_t begin = first; begin < source.size(); begin += kAtOnce) {
    std::vector<std::int64_t> indices(
        static_cast<std::size_t>(std::min(kAtOnce, source.size() - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    const batch::MicroBatch micro = source.fetch(indices);
    largest = std::max({largest, micro.inputs.max().item<std::int64_t>(),
                        micro.targets.max().item<std::int64_t>()});
  }
  return largest;
}

/// The vocabulary for ids up to `largest`: a known tokenizer's where one fits, and the next
/// multiple of 64 where none does.
std::int64_t vocabulary_of(std::int64_t largest) {
  constexpr std::int64_t kFew = 8192, kStep = 64;
  for (const std::int64_t known : {50257, 65536, 128256})
    if (largest >= kFew && largest < known) return known;
  return (largest + kStep) / kStep * kStep;
}

/// `single` has samples of one token, which leave no remainder; longer ones are read faster.
void look_at_stream(const data::Source& single, DataFacts& facts) {
  facts.tokens = single.size();
  facts.vocab = single.vocab();
  facts.format = facts.vocab > 0 ? data::Format::text : data::Format::tokens;
  if (facts.vocab > 0) return;
  facts.has_ids = true;
  constexpr std::int64_t kContext = 1024;
  std::int64_t largest = 0;
  if (facts.tokens > kContext) largest = largest_id(*open(facts, kContext), 0);
  const std::int64_t rest = std::max<std::int64_t>(0, facts.tokens - kContext);
  facts.vocab = vocabulary_of(std::max(largest, largest_id(single, rest)));
}

/// Tries sizes, since the last id of a line is no input and labels may leave it out.
std::int64_t vocabulary_of_lines(const DataFacts& facts, const data::Source& lines) {
  constexpr std::int64_t kMost = std::int64_t{1} << 22;
  for (std::int64_t vocab = vocabulary_of(largest_id(lines, 0));;
       vocab = vocabulary_of(2 * vocab)) {
    try {
      open(facts, kLongestLine, vocab);
      return vocab;
    } catch (const Error&) {
      if (vocab > kMost) throw;
    }
  }
}

void look_at_lines(DataFacts& facts) {
  const std::unique_ptr<data::Source> source = open(facts, kLongestLine);
  const data::Source& lines = *source;
  facts.format = data::Format::jsonl;
  facts.samples = lines.size();
  for (std::int64_t i = 0; i < lines.size(); ++i) {
    facts.tokens += lines.tokens(i);
    facts.longest = std::max(facts.longest, lines.tokens(i));
  }
  facts.has_ids = lines.vocab() == 0;
  facts.vocab = facts.has_ids ? vocabulary_of_lines(facts, lines) : lines.vocab();
}

}  // namespace

DataFacts look_at(const std::vector<std::string>& files) {
  DataFacts facts;
  sort_out(files, facts);
  if (is_json_lines(facts.train.front())) {
    look_at_lines(facts);
    return facts;
  }
  const std::unique_ptr<data::Source> source = open(facts, 1);
  if (const auto shape = source->image_shape()) {
    facts.format = data::Format::images;
    facts.image = shape;
    facts.samples = source->size();
    facts.vocab = static_cast<std::int64_t>(source->classes().size());
  } else {
    look_at_stream(*source, facts);
  }
  return facts;
}

}  // namespace accrue::train
