#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace accrue::data {

/// The keys of the objects that are open while JSON is read, to detect a key that an object has
/// twice.
class OpenKeys {
 public:
  void clear();
  void open_object();
  void close_object();
  /// Adds a key of the innermost object; false if that has it already.
  bool add(const std::string& key);

 private:
  struct Object {
    std::size_t begin = 0;                                  ///< of its keys in keys_
    std::unique_ptr<std::unordered_set<std::string>> many;  ///< all of them, once there are many
  };

  std::vector<std::string> keys_;  ///< strings after used_ are kept for their memory
  std::size_t used_ = 0;
  std::vector<Object> objects_;
};

}  // namespace accrue::data
