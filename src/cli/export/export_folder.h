#pragma once

#include <filesystem>
#include <vector>

namespace accrue::cli {

/// The folder that an export creates. Files are written to a hidden folder within it, and moved to
/// their places once all of them exist. If anything fails before, nothing of the export remains,
/// and files of other origin stay as they are.
class ExportFolder {
 public:
  /// Throws a usage Error unless there is nothing at `out`, or an empty folder: otherwise the user
  /// would have to pick the model's files from the others.
  static void check(const std::filesystem::path& out);

  /// Creates the folder. Throws as check() does, and a runtime Error if it cannot be created.
  explicit ExportFolder(std::filesystem::path out);
  ~ExportFolder();
  ExportFolder(const ExportFolder&) = delete;
  ExportFolder& operator=(const ExportFolder&) = delete;

  /// Where the files have to be written.
  const std::filesystem::path& files() const { return files_; }

  /// Moves the files to their places, the one that marks the folder as a model last. Throws a usage
  /// Error if another file has appeared at one of the places meanwhile.
  void commit();

 private:
  void move(const std::filesystem::path& name);

  std::filesystem::path out_, files_;
  std::vector<std::filesystem::path> made_;   ///< folders, the innermost first
  std::vector<std::filesystem::path> moved_;  ///< files in their places
};

}  // namespace accrue::cli
