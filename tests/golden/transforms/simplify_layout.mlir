// RUN: pydisc opt %s --passes=simplify-layout,mlir | filecheck %s

"disc_shape.symbolic_dim"() {sym_name = "S0", min = 0 : i64} : () -> ()
"disc_shape.symbolic_dim"() {sym_name = "S1", min = 0 : i64} : () -> ()

// Two transposes cancel, a reshape to the same symbols goes, a reshape to others stays.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<?x?xf32, [@S0, @S1]>)
// CHECK-NOT: transpose
// CHECK: %[[SHAPE:.*]] = tensor.from_elements
// CHECK: %[[Y:.*]] = stablehlo.dynamic_reshape %[[X]]
// CHECK-SAME: tensor<?x?xf32, [@S1, @S0]>
// CHECK: return %[[X]], %[[Y]]
func.func @main(%x: tensor<?x?xf32, [@S0, @S1]>) -> (tensor<?x?xf32, [@S0, @S1]>, tensor<?x?xf32, [@S1, @S0]>) {
  %d0 = "disc_shape.dim"() {symbol = @S0} : () -> index
  %d1 = "disc_shape.dim"() {symbol = @S1} : () -> index
  %same = tensor.from_elements %d0, %d1 : tensor<2xindex>
  %other = tensor.from_elements %d1, %d0 : tensor<2xindex>
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<?x?xf32, [@S0, @S1]>) -> tensor<?x?xf32, [@S1, @S0]>
  %u = stablehlo.transpose %t, dims = [1, 0] : (tensor<?x?xf32, [@S1, @S0]>) -> tensor<?x?xf32, [@S0, @S1]>
  %v = stablehlo.dynamic_reshape %u, %same : (tensor<?x?xf32, [@S0, @S1]>, tensor<2xindex>) -> tensor<?x?xf32, [@S0, @S1]>
  %w = stablehlo.dynamic_reshape %v, %other : (tensor<?x?xf32, [@S0, @S1]>, tensor<2xindex>) -> tensor<?x?xf32, [@S1, @S0]>
  return %v, %w : tensor<?x?xf32, [@S0, @S1]>, tensor<?x?xf32, [@S1, @S0]>
}
