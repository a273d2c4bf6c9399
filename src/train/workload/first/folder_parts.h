#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accrue::train {

/// Whether a word of the file's name marks it as held out: "corpus.val.txt", "test_batch.bin".
bool is_named_as_held_out(const std::filesystem::path& file);

/// Whether a file is a PNG or JPEG image, by its suffix.
bool is_image(const std::filesystem::path& file);
/// Whether each line or row of a file is a sample, by its suffix or its first bytes.
bool has_lines(const std::filesystem::path& file);

/// The kind of a folder's files that is trained on: the first of these of which it has files.
enum class FolderKind {
  images,
  image_sets,  ///< CIFAR's or idx files, and not labels alone
  lines,
  text,
};

/// The files of a folder, of which each was looked at once for each kind that came into question.
struct FolderFindings {
  std::filesystem::path folder;
  std::vector<std::filesystem::path> files;  ///< all of them
  FolderKind kind = FolderKind::text;
  std::vector<std::filesystem::path> of_kind;

  /// Those of a folder in it, which has files of the kind.
  FolderFindings below(const std::filesystem::path& part) const;
};

/// Throws a usage Error, its operation being `what`, if a link leads to nothing.
FolderFindings look_into(const std::filesystem::path& folder, const std::string& what);

/// The parts of a folder that are trained on, and those that are held out: files and folders.
struct FolderParts {
  std::vector<std::filesystem::path> train, val;
  std::vector<std::filesystem::path> unread;  ///< the other contents
};

/// The parts of a folder of data.
///
/// An entry named train is trained on. One named val, valid, validation or dev next to it is held
/// out, or if there is none test; all else is not read. A folder has exactly the name; a file has
/// it as a word ("wiki.train.tokens", "validation-00000-of-00001.parquet"). For images these are
/// folders with a folder for each class, and the held-out part has classes of the training part. A
/// folder that holds only one folder is searched in that one.
///
/// If nothing is named train, an entry named val, valid or validation is held out of the rest; for
/// CIFAR and idx files also test. Otherwise the whole folder is trained on.
///
/// Throws a usage Error, its operation being `what`, if a held-out folder of classes lies among
/// classes that hold folders themselves.
FolderParts parts_of_folder(const FolderFindings& findings, const std::string& what);

}  // namespace accrue::train
