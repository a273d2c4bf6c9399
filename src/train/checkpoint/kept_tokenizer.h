#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "accrue/train/run_directory.h"
#include "data/tokenizer/folder/tokenizer_files.h"

namespace accrue::train {

/// The file in a run's tokenizer folder that keeps the generation settings of the model it began
/// from (models::generation_config_text). Its name differs from that of a tokenizer's own file.
inline constexpr const char* kGenerationOfModel = "model_generation_config.json";

/// The files of a tokenizer as a run folder keeps them (RunDirectory::tokenizer_folder), with the
/// other files from outside the run that its text handling depends on.
class KeptTokenizer {
 public:
  KeptTokenizer() = default;
  /// Reads the files from their present folders.
  explicit KeptTokenizer(const std::vector<data::TokenizerPart>& parts);

  /// Adds a file, unless it is empty.
  void keep(const std::string& name, std::string content);

  /// Contents by name; empty if the run's text needs no files.
  const std::map<std::string, std::string>& files() const { return files_; }
  /// SHA-256 by name, as in run.json.
  std::map<std::string, std::string> digests() const;

 private:
  std::map<std::string, std::string> files_;
};

/// Throws a usage Error that names the first file that has a digest in run.json and is missing or
/// has other bytes. Folders of earlier versions have no digests and are accepted as they are.
void expect_kept_tokenizer(const RunDirectory& run);

}  // namespace accrue::train
