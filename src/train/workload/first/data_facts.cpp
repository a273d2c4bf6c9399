#include "train/workload/first/data_facts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <numeric>
#include <set>

#include "accrue/core/error.h"
#include "accrue/models/gguf_magic.h"
#include "accrue/train/config.h"
#include "data/files/glob.h"
#include "data/files/suffix.h"
#include "data/text/file_look.h"
#include "train/config/origin_kind.h"
#include "train/workload/model_factory.h"
#include "train/workload/model_origin.h"
#include "train/workload/standard_input.h"
#include "train/workload/text_tokenizer.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLongestLine = std::int64_t{1} << 24;  // tokens

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

/// `name` without a slash at its end.
fs::path without_end(const fs::path& name) {
  return name.has_filename() ? name : name.parent_path();
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

/// By the file's name, and if that does not say it by its first line.
bool has_lines(const fs::path& file) {
  const data::Format format = data::look_at_files({file}, "data.train").front().format;
  return format == data::Format::jsonl || format == data::Format::parquet;
}

/// Whether the files that a pattern stands for have a sample a line: the first one says it.
bool are_lines(const std::string& pattern, const std::string& operation) {
  return has_lines(data::expand_globs({pattern}, operation).front());
}

/// The glob for all files in `folder` of the file's suffix; without one the file itself.
std::string glob_for(const fs::path& folder, const fs::path& file) {
  if (!file.has_extension()) return file.string();
  return (folder / "**" / ("*" + file.extension().string())).string();
}

/// The globs for all images in `folder`, or else for its lines, one for each way in which
/// their suffixes are written; or the glob for everything.
std::set<std::string> globs_of(const fs::path& folder) {
  const std::vector<fs::path> files = data::files_below(folder, "data.train");
  for (const auto is_wanted : {is_image, has_lines}) {
    std::set<std::string> globs;
    for (const fs::path& file : files)
      if (is_wanted(file)) globs.insert(glob_for(folder, file));
    if (!globs.empty()) return globs;
  }
  return {(folder / "**").string()};
}

/// `name` as data.train has it: all of a folder, or the file or pattern itself.
std::vector<std::string> patterns_of(const std::string& name) {
  const fs::path path = without_end(name);
  if (!fs::is_directory(path))
    return is_idx_labels(path) ? std::vector<std::string>{} : std::vector{name};
  const std::set<std::string> globs = globs_of(path);
  return {globs.begin(), globs.end()};
}

std::vector<std::string> patterns_of(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const std::string& name : names) {
    const std::vector<std::string> patterns = patterns_of(name);
    all.insert(all.end(), patterns.begin(), patterns.end());
  }
  return all;
}

std::int64_t bytes_of_weights(const std::string& from) {
  fs::path place(from);
  std::error_code unreadable;
  if (const auto origin = run_origin(from)) place = origin->checkpoint;
  if (!fs::is_directory(place, unreadable))
    return static_cast<std::int64_t>(fs::file_size(place, unreadable));
  std::int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(place, unreadable))
    if (entry.path().extension() == ".safetensors" &&
        entry.path().filename() != "optimizer.safetensors")
      bytes += static_cast<std::int64_t>(entry.file_size(unreadable));
  return bytes;
}

/// Whether a tokenizer came out of the model's own file: then its files go with it.
bool is_in_model(const FirstFiles& files) {
  return models::is_gguf(files.model) && files.tokenizer == data::kAutoTokenizer;
}

/// What a config says of `files` before anything is chosen.
Config config_of(const FirstFiles& files, const std::vector<std::string>& train) {
  Config config;
  config.model.from = files.model;
  config.model.kind = kind_of_origin(files.model).value_or(ModelKind::gpt2);
  config.data.tokenizer = files.tokenizer;
  config.run.out = name_of_run(train, files.model);
  return config;
}

/// Opens the data as often as somebody wants to look at them.
class Opener {
 public:
  Opener(const FirstFiles& files, const DataFacts& facts, const Config& config,
         const data::TellProgress& tell)
      : operation_(files.operation) {
    options_.globs = facts.train;
    if (facts.states_format) options_.format = data::Format::images;
    options_.tokenizer = tokenizer_of(config);
    options_.cache = text_cache_of(config);
    options_.tell_progress = tell;
  }

  std::unique_ptr<data::Source> open(std::int64_t context, std::int64_t vocab = 0) const {
    data::SourceOptions options = options_;
    options.context = context;
    options.vocab = vocab;
    return data::open_source(options, operation_);
  }

 private:
  data::SourceOptions options_;
  std::string operation_;
};

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
void look_at_stream(const data::Source& single, const Opener& opener, DataFacts& facts) {
  facts.tokens = single.size();
  facts.vocab = single.vocab();
  facts.format = facts.vocab > 0 ? data::Format::text : data::Format::tokens;
  if (facts.vocab > 0) return;
  facts.has_ids = true;
  constexpr std::int64_t kContext = 1024;
  std::int64_t largest = 0;
  if (facts.tokens > kContext) largest = largest_id(*opener.open(kContext), 0);
  const std::int64_t rest = std::max<std::int64_t>(0, facts.tokens - kContext);
  facts.vocab = vocabulary_of(std::max(largest, largest_id(single, rest)));
}

/// Tries sizes, since the last id of a line is no input and labels may leave it out.
std::int64_t vocabulary_of_lines(const Opener& opener, const data::Source& lines) {
  constexpr std::int64_t kMost = std::int64_t{1} << 22;
  for (std::int64_t vocab = vocabulary_of(largest_id(lines, 0));;
       vocab = vocabulary_of(2 * vocab)) {
    try {
      opener.open(kLongestLine, vocab);
      return vocab;
    } catch (const Error&) {
      if (vocab > kMost) throw;
    }
  }
}

void look_at_lines(const data::Source& lines, const Opener& opener, DataFacts& facts) {
  facts.format = lines.has_conversations() ? data::Format::chat : data::Format::jsonl;
  if (data::has_parquet_suffix(facts.train.front())) facts.format = data::Format::parquet;
  facts.samples = lines.size();
  for (std::int64_t i = 0; i < lines.size(); ++i) {
    facts.tokens += lines.tokens(i);
    facts.longest = std::max(facts.longest, lines.tokens(i));
  }
  facts.has_ids = lines.vocab() == 0;
  facts.vocab = facts.has_ids ? vocabulary_of_lines(opener, lines) : lines.vocab();
}

void look_at_images(const data::Source& images, DataFacts& facts) {
  facts.format = data::Format::images;
  facts.image = images.image_shape();
  facts.samples = images.size();
  facts.vocab = static_cast<std::int64_t>(images.classes().size());
}

}  // namespace

std::string name_of_run(const std::vector<std::string>& train, const std::string& model) {
  fs::path path(train.empty() ? "" : train.front());
  while (path.string().find_first_of("*?[") != std::string::npos) path = path.parent_path();
  const auto is_name = [](const std::string& stem) {
    return !stem.empty() && stem != "." && stem != ".." && stem != kStandardInput;
  };
  std::string name = without_end(path).stem().string();
  if (!is_name(name)) name = "first";
  const std::string of_model = without_end(model).filename().string();
  return "runs/" + (is_name(of_model) ? of_model + "-" : "") + name;
}

FirstFiles sort_out(const std::vector<std::string>& names) {
  FirstFiles files;
  for (const std::string& name : names) {
    const fs::path path = without_end(name);
    if (!fs::exists(path))
      throw usage_error(files.operation, "files and folders that exist", "'" + name + "'",
                        "a path that leads there from " + fs::current_path().string());
    if (!fs::exists(path / "config.json") && !models::is_gguf(path)) {
      (is_held_out(path) ? files.val : files.train).push_back(path.string());
      continue;
    }
    if (!files.model.empty())
      throw usage_error(files.operation, "at most one model", files.model + " and " + path.string(),
                        "one of them");
    files.model = path.string();
  }
  if (files.train.empty()) std::swap(files.train, files.val);
  if (files.train.empty())
    throw usage_error(files.operation, "files to train on",
                      files.model.empty() ? "none" : "the model " + files.model + " alone",
                      "accrue init " + (files.model.empty() ? "" : files.model + " ") + "text.txt");
  return files;
}

DataFacts look_at(const FirstFiles& files, const data::TellProgress& tell) {
  DataFacts facts{.train = patterns_of(files.train), .val = patterns_of(files.val)};
  facts.states_format = std::ranges::any_of(facts.train, is_binary_image_set);
  Config config = config_of(files, facts.train);
  if (!files.model.empty()) {
    take_shape_of_origin(config);
    facts.model = {.from = files.model,
                   .kind = config.model.kind,
                   .context = config.model.context.value_or(0),
                   .bytes = bytes_of_weights(files.model)};
  }
  const Opener opener(files, facts, config, tell);
  const bool is_by_lines = !facts.train.empty() && are_lines(facts.train.front(), files.operation);
  const std::unique_ptr<data::Source> source = opener.open(is_by_lines ? kLongestLine : 1);
  if (const auto tokenizer = source->tokenizer())
    facts.tokenizer = is_in_model(files) ? files.model : tokenizer->file().string();
  if (source->image_shape())
    look_at_images(*source, facts);
  else if (is_by_lines)
    look_at_lines(*source, opener, facts);
  else
    look_at_stream(*source, opener, facts);
  return facts;
}

}  // namespace accrue::train
