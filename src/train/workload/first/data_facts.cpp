#include "train/workload/first/data_facts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/models/gguf_magic.h"
#include "accrue/train/config.h"
#include "data/files/glob.h"
#include "data/files/glob_parts.h"
#include "data/files/suffix.h"
#include "train/config/origin_kind.h"
#include "train/workload/first/folder_parts.h"
#include "train/workload/model_factory.h"
#include "train/workload/model_origin.h"
#include "train/workload/standard_input.h"
#include "train/workload/text_tokenizer.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLongestLine = std::int64_t{1} << 24;  // tokens

/// `name` without a trailing slash.
fs::path without_end(const fs::path& name) {
  return name.has_filename() ? name : name.parent_path();
}

bool is_idx_labels(const fs::path& file) {
  return file.filename().string().ends_with("idx1-ubyte");
}

/// Files in the form of data.train, and the rest of their folders that is left out.
struct Patterns {
  std::vector<std::string> globs;
  std::vector<std::string> unread = {};
};

/// Whether the files of a pattern have one sample per line: judged by the first file.
bool are_lines(const std::string& pattern, const std::string& operation) {
  return has_lines(data::expand_globs({pattern}, operation).front());
}

/// Whether the training data have one sample per line: as stated, or by their first file.
bool have_lines(const FirstFiles& files, const DataFacts& facts) {
  if (!files.format) return !facts.train.empty() && are_lines(facts.train.front(), files.operation);
  return *files.format == data::Format::jsonl || *files.format == data::Format::chat ||
         *files.format == data::Format::parquet;
}

/// The patterns for some files of a folder, one for each spelling of a suffix; a file without a
/// suffix is its own pattern.
std::vector<std::string> globs_by_suffix(const fs::path& below,
                                         const std::vector<fs::path>& files) {
  std::set<std::string> globs;
  for (const fs::path& file : files)
    globs.insert(file.has_extension() ? (below / ("*" + data::as_glob(file.extension()))).string()
                                      : data::as_glob(file));
  return {globs.begin(), globs.end()};
}

/// The patterns for the images of a folder, whose class is the first folder below: then an image
/// that lies in the folder itself has none. If there are several folders, each may be a class.
Patterns patterns_of_images(const fs::path& folder, const std::vector<fs::path>& files,
                            bool is_alone) {
  std::vector<fs::path> images, in_folder;
  Patterns patterns;
  for (const fs::path& file : files) {
    if (is_image(file))
      (file.parent_path() == folder ? in_folder : images).push_back(file);
    else if (data::has_image_suffix(file))
      patterns.unread.push_back(file.string());
  }
  const fs::path place = data::as_glob(folder);
  if (is_alone && !images.empty()) {
    patterns.globs = globs_by_suffix(place / "*" / "**", images);
    for (const fs::path& image : in_folder) patterns.unread.push_back(image.string());
  } else {
    images.insert(images.end(), in_folder.begin(), in_folder.end());
    patterns.globs = globs_by_suffix(place / "**", images);
  }
  return patterns;
}

/// The patterns for all images in a folder, or else the files of a set of images, or else the
/// patterns for its lines; or the one for everything.
Patterns patterns_of_folder(const FolderFindings& found, bool is_alone) {
  if (found.kind == FolderKind::images)
    return patterns_of_images(found.folder, found.files, is_alone);
  Patterns patterns;
  const fs::path everything = fs::path(data::as_glob(found.folder)) / "**";
  if (found.kind == FolderKind::image_sets)
    for (const fs::path& file : found.of_kind) patterns.globs.push_back(file.string());
  else if (found.kind == FolderKind::lines)
    patterns.globs = globs_by_suffix(everything, found.of_kind);
  else
    patterns.globs = {everything.string()};
  return patterns;
}

/// The findings of `folder`: as they are `known`, or part of a known folder around it, or else new.
FolderFindings findings_of(const fs::path& folder, const std::vector<FolderFindings>& known,
                           const std::string& what) {
  for (const FolderFindings& one : known) {
    if (one.folder == folder) return one;
    FolderFindings part = one.below(folder);
    if (!part.of_kind.empty()) return part;
  }
  return look_into(folder, what);
}

/// One pattern in place of many files of a folder, if it matches only these.
std::vector<std::string> in_one_pattern(std::vector<std::string> files, const std::string& what) {
  constexpr std::size_t many = 8;
  if (files.size() <= many) return files;
  std::ranges::sort(files);
  const std::string &first = files.front(), &last = files.back();
  const std::string begin(first.begin(), std::ranges::mismatch(first, last).in1);
  const std::string end = fs::path(first).extension().string();
  const auto is_in_between = [&](const std::string& file) {
    return file.size() >= begin.size() + end.size() && file.ends_with(end) &&
           fs::is_regular_file(file);  // and is not a pattern
  };
  if (!std::ranges::all_of(files, is_in_between)) return files;
  const std::string glob = data::as_glob(begin) + "*" + data::as_glob(end);
  const std::vector<fs::path> found = data::expand_globs({glob}, what);
  const bool is_same = std::ranges::equal(
      found, files, [](const fs::path& path, const std::string& file) { return path == file; });
  return is_same ? std::vector<std::string>{glob} : files;
}

/// `names` as data.train has them: what is in folders, and the files or patterns themselves.
Patterns patterns_of(const std::vector<fs::path>& names, const std::vector<FolderFindings>& known,
                     const std::string& what) {
  const auto is_folder = [](const fs::path& path) { return fs::is_directory(path); };
  const bool is_alone = std::ranges::count_if(names, is_folder) == 1;
  Patterns all;
  std::vector<std::string> files;
  for (const fs::path& name : names) {
    if (is_folder(name)) {
      const Patterns of_folder = patterns_of_folder(findings_of(name, known, what), is_alone);
      std::ranges::copy(of_folder.globs, std::back_inserter(all.globs));
      std::ranges::copy(of_folder.unread, std::back_inserter(all.unread));
    } else if (!is_idx_labels(name)) {
      files.push_back(name.string());
    }
  }
  std::ranges::move(in_one_pattern(std::move(files), what), std::back_inserter(all.globs));
  return all;
}

/// Files with what of their folders is held out, and what these folders hold.
struct SortedFiles {
  FolderParts parts;
  std::vector<FolderFindings> findings;
};

SortedFiles sorted(const FirstFiles& files) {
  SortedFiles all;
  for (const std::string& name : files.val) all.parts.val.push_back(without_end(name));
  for (const std::string& name : files.train) {
    const fs::path path = without_end(name);
    if (!fs::is_directory(path)) {
      all.parts.train.emplace_back(name);
      continue;
    }
    FolderFindings findings = look_into(path, files.operation);
    const FolderParts parts = parts_of_folder(findings, files.operation);
    std::ranges::copy(parts.train, std::back_inserter(all.parts.train));
    std::ranges::copy(parts.val, std::back_inserter(all.parts.val));
    std::ranges::copy(parts.unread, std::back_inserter(all.parts.unread));
    all.findings.push_back(std::move(findings));
  }
  return all;
}

/// Only the fields for data.train and data.val.
DataFacts facts_of_files(const FirstFiles& files) {
  const SortedFiles all = sorted(files);
  Patterns train = patterns_of(all.parts.train, all.findings, files.operation),
           val = patterns_of(all.parts.val, all.findings, files.operation);
  DataFacts facts{.train = std::move(train.globs), .val = std::move(val.globs)};
  for (const fs::path& path : all.parts.unread) facts.unread.push_back(path.string());
  for (Patterns* patterns : {&train, &val})
    std::ranges::move(patterns->unread, std::back_inserter(facts.unread));
  facts.named = files.train;
  return facts;
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

/// Whether a tokenizer comes from the model's own file: then its files belong to it.
bool is_in_model(const FirstFiles& files) {
  return models::is_gguf(files.model) && files.tokenizer == data::kAutoTokenizer;
}

/// The config for `files` before any choice.
Config config_of(const FirstFiles& files) {
  Config config;
  config.model.from = files.model;
  config.model.kind = kind_of_origin(files.model).value_or(ModelKind::gpt2);
  config.data.tokenizer = files.tokenizer;
  config.run.out = name_of_run(files.train, files.model);
  return config;
}

/// Opens the data as often as they are inspected.
class Opener {
 public:
  Opener(const FirstFiles& files, const DataFacts& facts, const Config& config,
         const ShowProgress& show)
      : operation_(files.operation) {
    options_.globs = facts.train;
    options_.format = files.format;
    options_.tokenizer = tokenizer_of(config);
    options_.cache = text_cache_of(config);
    options_.tell_progress =
        counted_operation(show, {.name = kTokenizing, .in_words = format_bytes});
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

/// The vocabulary for ids up to `largest`: a known tokenizer's if one fits, and otherwise the next
/// multiple of 64.
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

/// Tries sizes, since the last id of a line is not an input and labels may leave it out.
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
  facts.classes = images.classes();
  facts.vocab = std::ssize(facts.classes);
}

/// The folders of a pattern before its first wildcard; a name without one as it is.
fs::path before_wildcards(fs::path pattern) {
  while (pattern.string().find_first_of("*?[") != std::string::npos)
    pattern = pattern.parent_path();
  return pattern;
}

/// The folder that a file or folder is in, or that a pattern searches.
fs::path folder_of(const std::string& name) {
  const fs::path whole = without_end(name);
  const fs::path fixed = before_wildcards(whole);
  return fixed == whole ? whole.parent_path() : fixed;
}

/// The deepest folder that holds all of `names`, which are not empty; empty if the working
/// directory is the only one.
fs::path common_folder(const std::vector<std::string>& names) {
  fs::path common = folder_of(names.front());
  for (const std::string& name : names) {
    const fs::path folder = folder_of(name);
    const auto end =
        std::mismatch(common.begin(), common.end(), folder.begin(), folder.end()).first;
    fs::path shared;
    for (auto part = common.begin(); part != end; ++part) shared /= *part;
    common = std::move(shared);
  }
  return common;
}

}  // namespace

std::string DataFacts::run_name() const {
  return name_of_run(named.empty() ? train : named, model.from);
}

std::string name_of_run(const std::vector<std::string>& train, const std::string& model) {
  const auto is_name = [](const std::string& stem) {
    return !stem.empty() && stem != "." && stem != ".." && stem != kStandardInput;
  };
  std::string name = train.size() > 1 ? common_folder(train).filename().string() : "";
  if (!is_name(name) && !train.empty())
    name = without_end(before_wildcards(train.front())).stem().string();
  if (!is_name(name)) name = "first";
  const std::string of_model = without_end(model).filename().string();
  return "runs/" + (is_name(of_model) ? of_model + "-" : "") + name;
}

FirstFiles sort_out(const std::vector<std::string>& names, const std::string& operation) {
  FirstFiles files;
  files.operation = operation;
  for (const std::string& name : names) {
    const fs::path path = without_end(name);
    if (!fs::exists(path))
      throw usage_error(files.operation, "files and folders that exist", "'" + name + "'",
                        "a path that leads there from " + fs::current_path().string());
    if (!fs::exists(path / "config.json") && !models::is_gguf(path)) {
      (is_named_as_held_out(path) ? files.val : files.train).push_back(path.string());
      continue;
    }
    if (!files.model.empty())
      throw usage_error(files.operation, "at most one model", files.model + " and " + path.string(),
                        "one of them");
    files.model = path.string();
  }
  if (files.train.empty()) std::swap(files.train, files.val);
  if (files.train.empty())
    throw usage_error(
        files.operation, "files to train on",
        files.model.empty() ? "none" : "the model " + files.model + " alone",
        operation + " " + (files.model.empty() ? "" : files.model + " ") + "text.txt");
  return files;
}

DataFacts inspect_data(const FirstFiles& files, const ShowProgress& show) {
  const LongOperation reading(show, "reading the data");
  DataFacts facts = facts_of_files(files);
  Config config = config_of(files);
  if (!files.model.empty()) {
    take_shape_of_origin(config);
    facts.model = {.from = files.model,
                   .kind = config.model.kind,
                   .context = config.model.context.value_or(0),
                   .bytes = bytes_of_weights(files.model)};
  }
  const Opener opener(files, facts, config, show);
  const bool is_by_lines = have_lines(files, facts);
  const std::unique_ptr<data::Source> source = opener.open(is_by_lines ? kLongestLine : 1);
  if (const auto tokenizer = source->tokenizer())
    facts.tokenizer = is_in_model(files) ? files.model : tokenizer->file().string();
  if (source->image_shape())
    look_at_images(*source, facts);
  else if (is_by_lines)
    look_at_lines(*source, opener, facts);
  else
    look_at_stream(*source, opener, facts);
  facts.format = files.format.value_or(facts.format);
  return facts;
}

}  // namespace accrue::train
