#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace accrue::data {

/// A name that patterns match, of a file that they also match by another name.
struct OtherName {
  std::filesystem::path name;
  std::filesystem::path file;  ///< the name by which it counts
};

/// The matches of patterns.
struct FoundFiles {
  std::vector<std::filesystem::path> files;  ///< as from expand_globs()
  std::vector<OtherName> other_names;        ///< sorted by name
};

/// The regular files that `globs` match (defined in SourceOptions::globs), sorted by path as
/// bytes, each file once whatever its names. A glob that is the name of a file is that file,
/// whatever characters are in it. Throws a usage Error of the operation `what` that names the
/// globs and the working directory if one of them matches nothing, or that names the folder that
/// cannot be read, or the link without a target: that may be a part of the data that is not
/// mounted.
std::vector<std::filesystem::path> expand_globs(const std::vector<std::string>& globs,
                                                const std::string& what);
/// The same together with the names that were left out.
FoundFiles find_files(const std::vector<std::string>& globs, const std::string& what);

/// The regular files below a folder that are not hidden, found, sorted and refused as by
/// expand_globs() for "folder/**"; finding none is not an error.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               const std::string& what);

/// Those of `paths` that are files matched by `globs`, under any name. Throws as expand_globs()
/// does; no globs match nothing.
std::set<std::filesystem::path> matching(const std::vector<std::filesystem::path>& paths,
                                         const std::vector<std::string>& globs,
                                         const std::string& what);

/// `paths` without those `excluded`, in order. Throws a usage Error if none is left.
std::vector<std::filesystem::path> without(const std::vector<std::filesystem::path>& paths,
                                           const std::set<std::filesystem::path>& excluded,
                                           const std::string& what);

}  // namespace accrue::data
