#include "train/checkpoint/kept_tokenizer.h"

#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/sha256.h"
#include "train/checkpoint/run_record.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

/// Empty if the file has this digest.
std::string obstacle_of(const fs::path& file, const std::string& digest) {
  std::error_code unreadable;
  if (!fs::exists(file, unreadable)) return "none";
  return sha256_of(read_file(file)) == digest ? "" : "bytes that changed since";
}

}  // namespace

KeptTokenizer::KeptTokenizer(const std::vector<data::TokenizerPart>& parts) {
  for (const data::TokenizerPart& part : parts) files_[part.name] = read_file(part.file);
}

void KeptTokenizer::keep(const std::string& name, std::string content) {
  if (!content.empty()) files_[name] = std::move(content);
}

std::map<std::string, std::string> KeptTokenizer::digests() const {
  std::map<std::string, std::string> digests;
  for (const auto& [name, content] : files_) digests[name] = sha256_of(content);
  return digests;
}

void expect_kept_tokenizer(const RunDirectory& run) {
  for (const auto& [name, digest] : recorded_tokenizer(run)) {
    const fs::path file = run.tokenizer_folder() / name;
    const std::string obstacle = obstacle_of(file, digest);
    if (obstacle.empty()) continue;
    throw usage_error("read the tokenizer of " + run.root().string(),
                      file.string() + " as the run wrote it", obstacle,
                      name +
                          " of the tokenizer that the run was trained with, or of a copy of "
                          "the run, in its place");
  }
}

}  // namespace accrue::train
