#pragma once

#include <filesystem>
#include <vector>

namespace accrue::cli {

/// The folder that an export makes. What is written goes to a hidden folder within it, and comes to
/// its place once all of it is there. Whatever fails before, nothing stays behind of the export,
/// and what somebody else put there stays as it is.
class ExportFolder {
 public:
  /// Throws a usage Error unless there is nothing at `out`, or a folder with nothing in it, among
  /// whose files somebody would have to pick out the model's.
  static void check(const std::filesystem::path& out);

  /// Makes the folder. Throws as check() does, and a runtime Error if it cannot be made.
  explicit ExportFolder(std::filesystem::path out);
  ~ExportFolder();
  ExportFolder(const ExportFolder&) = delete;
  ExportFolder& operator=(const ExportFolder&) = delete;

  /// Where the files are to be written.
  const std::filesystem::path& files() const { return files_; }

  /// Gives the files their places, that by which others know a model the last. Throws a usage Error
  /// if something came to be in the place of one meanwhile.
  void commit();

 private:
  void move(const std::filesystem::path& name);

  std::filesystem::path out_, files_;
  std::vector<std::filesystem::path> made_;   ///< folders, the innermost first
  std::vector<std::filesystem::path> moved_;  ///< what is in its place
};

}  // namespace accrue::cli
