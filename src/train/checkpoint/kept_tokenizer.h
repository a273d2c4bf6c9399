#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "accrue/train/run_directory.h"
#include "data/text/tokenizer_files.h"

namespace accrue::train {

/// What a run's tokenizer folder has of the model that it began with: how a text of that goes on
/// (models::generation_config_text). Not called as the file of a tokenizer's own folder is.
inline constexpr const char* kGenerationOfModel = "model_generation_config.json";

/// The files of a tokenizer as a run folder keeps them (RunDirectory::tokenizer_folder), and what
/// else of other people's folders its texts depend on.
class KeptTokenizer {
 public:
  KeptTokenizer() = default;
  /// Reads them where they lie.
  explicit KeptTokenizer(const std::vector<data::TokenizerPart>& parts);

  /// Keeps one more file, unless it is empty.
  void keep(const std::string& name, std::string content);

  /// Contents by name; empty if the run's text needs nothing.
  const std::map<std::string, std::string>& files() const { return files_; }
  /// SHA-256 by name, as run.json has it.
  std::map<std::string, std::string> digests() const;

 private:
  std::map<std::string, std::string> files_;
};

/// Throws a usage Error that names the first file that run.json has a digest of and that is missing
/// or has other bytes. Folders of earlier versions have no digests, and are taken as they are.
void expect_kept_tokenizer(const RunDirectory& run);

}  // namespace accrue::train
