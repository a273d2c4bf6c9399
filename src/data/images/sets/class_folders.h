#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/files/glob.h"

namespace accrue::data {

/// Which folder gives an image its class: one that a pattern names.
///
/// - The first folder that the last wildcards among a pattern's folders match: of "train/*/*.png",
///   "train/*/images/*.png" and "train/**/*.png" a folder in "train", as in torchvision's
///   ImageFolder, however deep the image lies below. An image in "train" itself has no class then.
/// - For a pattern without wildcards among its folders the folder that the image lies in
///   ("cat/*.png", "dog/*.png"), or if all patterns share their ends the last in which they differ
///   ("cat/images/*", "dog/images/*").
/// - If each X of several "X/**" has images in X itself, these X are the classes.
class ClassFolders {
 public:
  /// `known`: the classes of the training data, if these are other data. Throws a usage Error of
  /// the operation `what` if some of several "X/**" have images in X and others only below.
  ClassFolders(const std::vector<std::string>& globs, const FoundFiles& found,
               const std::vector<std::string>& known, const std::string& what);

  /// The class of one of the found files; empty if it lies in no class's folder.
  const std::string& class_of(const std::filesystem::path& file) const;

  /// Remarks on these classes for the user, a sentence each.
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  using Path = std::filesystem::path;
  struct Pattern {
    std::vector<std::string> folders;
    std::size_t class_part = 0;  ///< which of them is the class; their number if none
  };
  /// A folder of images.
  struct Place {
    Path class_folder;      ///< empty: none
    Path base;              ///< X, if a pattern "X/**" names the class; else empty
    std::size_t pattern;    ///< by which it was found; the number of patterns if none
    bool is_below = false;  ///< it is below the class's folder
    std::string class_name = {};
  };
  /// An image in X of "X/**", and one in a folder below.
  struct Base {
    Path image_in_it, image_below;
  };

  void take_patterns(const std::vector<std::string>& globs, const std::vector<std::string>& known);
  Place place_of(const Path& folder) const;
  void settle_bases(const std::vector<Path>& files, const std::string& what);
  const Place& known_place_of(const Path& file) const;
  std::vector<Path> folders_without_images() const;
  void remark_on_places(const std::vector<Path>& files);
  void remark_on_other_names(const std::vector<OtherName>& names);
  void remark_on_folders_without_images();

  std::vector<Pattern> patterns_;
  std::map<std::string, Place> places_;  ///< by the path of the folder
  bool bases_are_classes_ = false;
  std::vector<std::string> remarks_;
};

}  // namespace accrue::data
